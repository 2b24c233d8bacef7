"""What a long transfer took is given back, and what was in the buffers is gone."""

import os
from pathlib import Path

from twisted.internet.task import Clock

from gitmoat.net.memory import LARGE, give_back, give_back_after
from gitmoat.net.transport import openssl


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_what_was_freed_between_other_things_goes_back_to_the_system() -> None:
    taken = [bytes([1]) * 100_000 for _ in range(200)]
    held = taken[::20]
    del taken
    before = _resident()
    give_back()
    assert before - _resident() > 10_000_000
    assert held[0][0] == held[-1][-1] == 1


def test_the_buffers_hold_nothing_any_more_and_can_be_used_again() -> None:
    for _ in range(2):
        openssl.INTO[:5] = openssl._room[-5:] = b"clear"
        openssl.wipe()
        assert not any(openssl.INTO) and not any(openssl._room)


def test_a_process_that_is_forked_has_its_own_buffers() -> None:
    openssl.INTO[:5] = b"clear"
    child = os.fork()
    if child == 0:
        openssl.INTO[:5] = b"other"
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert bytes(openssl.INTO[:5]) == b"clear"
    openssl.wipe()


def test_only_long_transfers_are_followed_by_it_and_in_a_turn_of_its_own() -> None:
    clock = Clock()
    openssl.INTO[:5] = b"clear"
    give_back_after(clock, LARGE - 1)
    assert clock.getDelayedCalls() == []
    give_back_after(clock, LARGE)
    assert bytes(openssl.INTO[:5]) == b"clear"
    clock.advance(0)
    assert not any(openssl.INTO)

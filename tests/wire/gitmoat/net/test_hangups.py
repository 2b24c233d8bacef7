"""A peer that leaves is noticed behind what nobody reads, once, and nobody else is told."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator

import pytest

from gitmoat.net.hangups import Hangups
from tests.waiting import readable

UNREAD = b"what nobody reads"


class Loop:
    """Polls nothing: each test looks by itself."""

    def __init__(self) -> None:
        self.readers: set[object] = set()
        self.later: list[Callable[..., object]] = []

    def addReader(self, reader: object) -> None:
        self.readers.add(reader)

    def removeReader(self, reader: object) -> None:
        self.readers.discard(reader)

    def addWriter(self, writer: object) -> None:
        raise AssertionError("nothing is written")

    def removeWriter(self, writer: object) -> None:
        raise AssertionError("nothing was written")

    def callLater(self, delay: float, call: Callable[..., object], *args: object) -> None:
        assert delay == 0 and not args
        self.later.append(call)

    def seconds(self) -> float:
        return 0.0


class Ends:
    """A connection of ours, and what is told of its peer."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.left: list[str] = []

    def leave(self) -> None:
        self.theirs.send(UNREAD)
        self.theirs.close()


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def hangups(loop: Loop) -> Iterator[Hangups]:
    made = Hangups(loop)
    yield made
    made.close()


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    made.ours.close()
    made.theirs.close()


def looked(hangups: Hangups, loop: Loop) -> None:
    readable(hangups.fileno(), "the end of a peer")
    hangups.doRead()
    later, loop.later = loop.later, []
    for call in later:
        call()


def test_a_peer_that_left_is_told_once_behind_what_nobody_reads(
    hangups: Hangups, loop: Loop, ends: Ends
) -> None:
    watch = hangups.watch(ends.ours.fileno(), lambda: ends.left.append("one"))
    ends.leave()
    looked(hangups, loop)
    hangups.doRead()
    hangups.forget(watch)
    assert ends.left == ["one"]
    assert ends.ours.recv(100) == UNREAD


def test_what_is_sent_is_no_leaving(hangups: Hangups, ends: Ends) -> None:
    hangups.watch(ends.ours.fileno(), lambda: ends.left.append("one"))
    ends.theirs.send(UNREAD)
    hangups.doRead()
    assert ends.left == []


def test_the_next_request_of_a_connection_is_told_in_place_of_the_one_before(
    hangups: Hangups, loop: Loop, ends: Ends
) -> None:
    first = hangups.watch(ends.ours.fileno(), lambda: ends.left.append("first"))
    hangups.watch(ends.ours.fileno(), lambda: ends.left.append("second"))
    hangups.forget(first)
    ends.leave()
    looked(hangups, loop)
    assert ends.left == ["second"]


def test_a_number_that_is_another_connections_by_now_is_not_forgotten(
    hangups: Hangups, loop: Loop, ends: Ends
) -> None:
    number = ends.ours.fileno()
    old = hangups.watch(number, lambda: ends.left.append("old"))
    later = Ends()
    os.dup2(later.ours.fileno(), number)  # closes the old one, as the loop does
    later.ours.close()
    hangups.watch(number, lambda: ends.left.append("new"))
    hangups.forget(old)
    later.leave()
    looked(hangups, loop)
    assert ends.left == ["new"]


def test_what_was_closed_meanwhile_can_be_forgotten(hangups: Hangups, ends: Ends) -> None:
    watch = hangups.watch(ends.ours.fileno(), lambda: ends.left.append("one"))
    ends.ours.close()
    hangups.forget(watch)
    hangups.doRead()
    assert ends.left == []


def test_a_fault_of_one_who_is_told_leaves_the_others_their_watch(
    hangups: Hangups, loop: Loop, ends: Ends
) -> None:
    def fault() -> None:
        raise RuntimeError("of one exchange")

    other = Ends()
    hangups.watch(other.ours.fileno(), fault)
    hangups.watch(ends.ours.fileno(), lambda: ends.left.append("one"))
    other.leave()
    readable(hangups.fileno(), "the end of a peer")
    hangups.doRead()  # the loop would drop a reader that raises
    with pytest.raises(RuntimeError):
        loop.later.pop()()
    ends.leave()
    looked(hangups, loop)
    assert ends.left == ["one"] and loop.readers == {hangups}
    other.ours.close()

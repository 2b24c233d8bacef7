"""What takes long to digest is read in smaller pieces."""

from __future__ import annotations

from gitmoat.net.transport.descriptor import FIRST, LEAST, READ, SLOW, ReadSize


def test_it_grows_while_turns_are_short_up_to_its_most() -> None:
    appetite = ReadSize()
    assert appetite.size == FIRST
    for _ in range(10):
        appetite.took(appetite.size, SLOW / 100)
    assert appetite.size == READ


def test_a_peer_that_sends_little_gets_no_more_room() -> None:
    appetite = ReadSize()
    for _ in range(10):
        appetite.took(100, SLOW / 100)
    assert appetite.size == FIRST


def test_a_long_turn_is_followed_by_shorter_ones_and_never_by_none() -> None:
    appetite = ReadSize()
    for _ in range(10):
        appetite.took(appetite.size, SLOW / 100)
    appetite.took(READ, SLOW * 20)
    assert appetite.size == READ // 4
    for _ in range(10):
        appetite.took(appetite.size, SLOW * 2)
    assert appetite.size == LEAST
    appetite.took(LEAST, SLOW / 100)
    assert appetite.size == 2 * LEAST

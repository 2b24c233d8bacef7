"""A daemon's end of a control socket, over a connection that is played by hand."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from attrs import define, field

from gitmoat.control.server import Conversation


@define
class Wire:
    handle: socket.socket
    said: bytes = b""
    closed: bool = False

    def getHandle(self) -> socket.socket:
        return self.handle

    def write(self, data: bytes) -> None:
        self.said += data

    def loseConnection(self) -> None:
        self.closed = True


@define(eq=False)
class Talk(Conversation):
    welcome: bool = True
    problem: Exception | None = None
    lines: list[bytes] = field(factory=list)
    ends: int = 0

    def __attrs_pre_init__(self) -> None:
        super().__init__(8)

    def permits(self, uid: int) -> bool:
        if self.problem is not None:
            raise self.problem
        return self.welcome

    def heard(self, line: bytes) -> None:
        self.lines.append(line)
        if line == b"bye":
            self.say({"ok": True})
            self.drop()

    def lost(self) -> None:
        self.ends += 1


@pytest.fixture
def wire() -> Iterator[Wire]:
    near, far = socket.socketpair()
    with near, far:
        yield Wire(near)


def talk(wire: Any, welcome: bool = True) -> Any:
    made: Any = Talk(welcome=welcome)
    made.makeConnection(wire)
    return made


def test_lines_are_heard_one_by_one(wire: Wire) -> None:
    made = talk(wire)
    made.dataReceived(b"one\ntw")
    made.dataReceived(b"o\n")
    assert made.lines == [b"one", b"two"] and not wire.closed


def test_nothing_is_heard_behind_the_end(wire: Wire) -> None:
    made = talk(wire)
    made.dataReceived(b"bye\nmore\n")
    made.dataReceived(b"more\n")
    assert made.lines == [b"bye"] and wire.closed and wire.said == b'{"ok": true}\n'


def test_a_line_that_is_too_long_ends_it(wire: Wire) -> None:
    made = talk(wire)
    made.dataReceived(b"x" * 9)
    assert made.lines == [] and wire.closed


def test_who_cannot_be_judged_is_not_permitted(wire: Any) -> None:
    made: Any = Talk(problem=OSError("the refusal cannot be recorded"))
    with pytest.raises(OSError):
        made.makeConnection(wire)
    made.dataReceived(b"one\n")
    assert made.lines == [] and wire.closed


def test_of_who_is_not_permitted_nothing_is_read_and_nothing_is_told(wire: Wire) -> None:
    made = talk(wire, welcome=False)
    made.dataReceived(b"one\n")
    made.say({"ok": True})
    made.connectionLost()
    assert (made.lines, wire.said, wire.closed, made.ends) == ([], b"", True, 0)

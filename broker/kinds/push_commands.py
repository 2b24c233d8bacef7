"""Reads a push's body until its commands are whole."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field, frozen

from gitmoat.wire.git.receivepack import CommandReader, PushCommands, PushRefused, Refusal
from gitmoat.wire.malformed import Malformed

_CODES = {Refusal.SIGNED: "G205", Refusal.TOO_MANY: "G304"}


@frozen
class BadPush:
    """Not understood, or (with `commands`) understood and never served.

    `odd` are names among the commands that are no refs, for the report.
    """

    what: str
    commands: PushCommands | None = None
    odd: tuple[bytes, ...] = ()
    code: str = "G203"


@define(eq=False)
class CommandsReader:
    """A result is the last word; what came behind the commands is `leftover`."""

    most: int  # refs
    _reader: CommandReader = field(init=False)
    _taken: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._reader = CommandReader(self.most)

    @property
    def leftover(self) -> bytes:
        return self._reader.leftover

    @property
    def read(self) -> int:
        """How many bytes of the body the commands took."""
        return self._taken - len(self._reader.leftover)

    def feed(self, data: bytes) -> PushCommands | BadPush | None:
        self._taken += len(data)
        return self._understood(lambda: self._reader.feed(data))

    def finish(self) -> PushCommands | BadPush | None:
        return self._understood(self._reader.finish)

    def _understood(self, read: Callable[[], PushCommands | None]) -> PushCommands | BadPush | None:
        try:
            return read()
        except PushRefused as refused:
            code = _CODES.get(refused.why, "G203")
            return BadPush(refused.what, refused.commands, refused.odd, code)
        except Malformed as malformed:
            return BadPush(malformed.what)

"""Takes a push's body until its commands are whole; the beginning of the pack waits."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field, frozen

from gitwire.errors import Malformed
from gitwire.http import Piece
from gitwire.receivepack import CommandReader, PushCommands, PushRefused, Refusal
from streams.causes import Why

_CODES = {Refusal.SIGNED: "G205", Refusal.TOO_MANY: "G304"}


@frozen
class BadPush:
    """Not understood, or (with `commands`) understood and never served.

    `odd` are names among the commands that are no refs, for the report.
    """

    what: str
    commands: PushCommands | None = None
    odd: tuple[str, ...] = ()
    code: str = "G203"


@define(eq=False)
class CommandSink:
    """A body sink of `streams` that calls `found` once, unless the client is lost before."""

    _found: Callable[[PushCommands | BadPush], None]
    _reader: CommandReader = field(factory=CommandReader, init=False)
    _taken: int = field(default=0, init=False)
    _done: bool = field(default=False, init=False)

    @property
    def leftover(self) -> bytes:
        return self._reader.leftover

    @property
    def read(self) -> int:
        """How many bytes of the body the commands took."""
        return self._taken - len(self._reader.leftover)

    def body(self, *pieces: Piece) -> None:
        if self._done:
            return
        data = b"".join(pieces)
        self._taken += len(data)
        found = self._understood(lambda: self._reader.feed(data))
        if found is not None:
            self._finish(found)

    def _understood(self, read: Callable[[], PushCommands | None]) -> PushCommands | BadPush | None:
        try:
            return read()
        except PushRefused as refused:
            code = _CODES.get(refused.why, "G203")
            return BadPush(refused.what, refused.commands, refused.odd, code)
        except Malformed as malformed:
            return BadPush(malformed.what)

    def body_done(self) -> None:
        found = None if self._done else self._understood(self._reader.finish)
        if found is not None:
            self._finish(found)

    def body_failed(self, why: Why) -> None:
        self._done = True

    def _finish(self, found: PushCommands | BadPush) -> None:
        if not self._done:
            self._done = True
            self._found(found)

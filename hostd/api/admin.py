"""The control socket: attests its client, takes one request as a JSON line, answers in JSON lines.

Only a client with uid 0 gets a `Channel`, and only a `Channel` reaches an operation.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IFileDescriptorReceiver
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from gitmoat.control.lines import object_of
from gitmoat.control.server import Conversation, serve
from hostd.failures import Failed

_log = Logger()
_LINE_LIMIT = 1024 * 1024
_MAX_DESCRIPTORS = 3
_MAX_EARLY = 16

Operation = Callable[["Channel", dict[str, Any]], Awaitable[dict[str, Any]]]


class Channel:
    """An attested connection whose request is being answered."""

    def __init__(self, send: Callable[[dict[str, Any]], None], descriptors: list[int]) -> None:
        self._send = send
        self._descriptors = descriptors
        self._signal: Callable[[int], None] | None = None
        self._early: list[int] = []
        self._lost: Callable[[], None] = lambda: None
        self._gone = False

    def progress(self, text: str) -> None:
        self._send({"progress": text})

    def event(self, kind: str, /, **fields: Any) -> None:
        self._send({"event": kind, **fields})

    def descriptors(self, count: int) -> list[int]:
        """The descriptors of the request; the channel owns them and closes them."""
        if len(self._descriptors) != count:
            raise Failed("C105", f"this request needs {count} descriptors")
        return list(self._descriptors)

    def on_signal(self, callback: Callable[[int], None]) -> None:
        """Also passes signals that came earlier: hostctl sends them as soon as the command runs,
        which may be before hostd knows that it does."""
        self._signal = callback
        early, self._early = self._early, []
        for number in early:
            callback(number)

    def on_lost(self, callback: Callable[[], None]) -> None:
        """`callback` is called at once if the client has gone already."""
        self._lost = callback
        if self._gone:
            callback()

    def still_wanted(self) -> None:
        """Raises Failed if the client has gone."""
        if self._gone:
            raise Failed("R101", "hostctl ended before its sandbox was made")

    def release(self) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()

    def note(self, message: dict[str, Any]) -> None:
        match message:
            case {"signal": int(number)} if 0 < number < 65 and self._signal is not None:
                self._signal(number)
            case {"signal": int(number)} if 0 < number < 65 and len(self._early) < _MAX_EARLY:
                self._early.append(number)

    def lost(self) -> None:
        self._gone = True
        self._lost()


@implementer(IFileDescriptorReceiver)
class AdminConnection(Conversation):
    def __init__(self, operations: Mapping[str, Operation], refused: Callable[[int], None]) -> None:
        super().__init__(_LINE_LIMIT)
        self._operations = operations
        self._refused = refused
        self._descriptors: list[int] = []
        self._channel: Channel | None = None

    def permits(self, uid: int) -> bool:
        if uid == 0:
            return True
        self._refused(uid)
        return False

    def fileDescriptorReceived(self, descriptor: int) -> None:
        if not self.open or self._channel or len(self._descriptors) >= _MAX_DESCRIPTORS:
            os.close(descriptor)
            self.drop()
            return
        os.set_inheritable(descriptor, False)
        self._descriptors.append(descriptor)

    def heard(self, line: bytes) -> None:
        message = object_of(line)
        if message is None:
            self._answer_error(Failed("C105", "the request is not a JSON object"))
        elif self._channel is not None:
            self._channel.note(message)
        else:
            self._begin(message)

    def lost(self) -> None:
        if self._channel is not None:
            self._channel.lost()
        else:
            self._close_descriptors()

    def _begin(self, message: dict[str, Any]) -> None:
        operation = self._operations.get(str(message.pop("op", None)))
        if operation is None:
            self._answer_error(Failed("C105", "hostd does not know this operation"))
            return
        self._channel = Channel(self.say, self._descriptors)
        done = Deferred.fromCoroutine(_run(operation, self._channel, message))
        done.addCallbacks(lambda answer: self.say({"ok": True, **answer}), self._failed)
        done.addErrback(lambda failure: _log.failure("answering failed", failure))
        done.addBoth(lambda _: self._end())

    def _failed(self, failure: Failure) -> None:
        """The one boundary where an exception becomes an answer."""
        problem = failure.value
        if isinstance(problem, Failed):
            self._answer_error(problem)
            return
        _log.failure("an operation failed", failure)
        text = f"{type(problem).__name__}: {problem}"
        self._answer_error(Failed("R101", "hostd could not do this", why=text[:300]))

    def _answer_error(self, problem: Failed) -> None:
        self.say({"error": problem.mapping()})
        if self._channel is None:
            self.drop()

    def _end(self) -> None:
        if self._channel is not None:
            self._channel.release()
        self.drop()

    def drop(self) -> None:
        self._close_descriptors()
        super().drop()

    def _close_descriptors(self) -> None:
        if self._channel is None:
            for descriptor in self._descriptors:
                os.close(descriptor)
            self._descriptors.clear()


async def _run(operation: Operation, channel: Channel, message: dict[str, Any]) -> dict[str, Any]:
    return await operation(channel, message)


def serve_admin(
    reactor: Any,
    listener: socket.socket,
    operations: Mapping[str, Operation],
    refused: Callable[[int], None],
) -> None:
    serve(reactor, listener, lambda: AdminConnection(operations, refused))

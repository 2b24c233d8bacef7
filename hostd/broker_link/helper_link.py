"""Runs the owner's credential helpers for the broker, which may start nothing.

The broker sends a provider's name and one end of a socket pair. The helper gets that end, on which
it speaks with the broker alone. hostd has the descriptor only until the helper is started.
"""

from __future__ import annotations

import os
import stat
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IFileDescriptorReceiver
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from gitmoat.audit.events import AdminOperation
from gitmoat.audit.journal import Journal
from gitmoat.control.lines import LineReader, TooLong, line_of, object_of
from gitmoat.identity.control_errors import ControlSocketError
from gitmoat.identity.control_socket import connect_control
from hostd.broker_link.helper_config import HelperFiles
from hostd.deferreds import cancel
from hostd.failures import Failed, NotStarted
from hostd.process.handle import Process
from hostd.process.launcher_client import LauncherClient
from hostd.process.requests import Command

_log = Logger()
_LINE_LIMIT = 4096
_MOST = 8
_TIMEOUT = 12.0  # a little more than the broker has
_AGAIN = 2.0
_BROKER_ASKS = 0  # root made the broker's socket, before the broker changed its uid


class HelperLink:
    """Keeps one connection to the broker's admin socket, and makes it again when it ends."""

    def __init__(
        self, reactor: Any, files: HelperFiles, launcher: LauncherClient, journal: Journal
    ) -> None:
        self._reactor = reactor
        self._files = files
        self._launcher = launcher
        self._journal = journal
        self._running = 0
        self._retry: Any = None
        self._connection: _Connection | None = None
        self._stopped = False

    def start(self) -> None:
        paths = self._files.paths
        try:
            found = connect_control(paths.broker_admin_socket, _BROKER_ASKS, root=paths.root)
        except ControlSocketError:  # the broker does not run yet, or runs on another machine
            self.lost()
            return
        found.setblocking(False)
        factory = Factory.forProtocol(lambda: _Connection(self))
        factory.noisy = False
        with found:
            self._reactor.adoptStreamConnection(found.fileno(), found.family, factory)

    def stop(self) -> None:
        self._stopped = True
        if self._retry is not None and self._retry.active():
            self._retry.cancel()
        if self._connection is not None:
            self._connection.hang_up()

    def made(self, connection: _Connection) -> None:
        self._connection = connection

    def lost(self) -> None:
        self._connection = None
        if not self._stopped:
            self._retry = self._reactor.callLater(_AGAIN, self.start)

    async def run(self, provider: str, descriptor: int) -> None:
        """Returns when the helper has ended with status 0; else raises Failed."""
        if self._running >= _MOST:
            os.close(descriptor)
            raise Failed("U105", "was not run: too many helpers run already")
        self._running += 1
        try:
            process = await self._begin(provider, descriptor)
            await self._attend(process)
        finally:
            self._running -= 1

    async def _begin(self, provider: str, descriptor: int) -> Process:
        nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                raise Failed("U105", "was not run: what came with the request is no socket")
            command = self._files.command(provider)
            self._record(provider, command)
            return await self._launcher.ask_child(command, [descriptor, descriptor, nowhere])
        except Failed as problem:
            raise Failed(
                "U105", problem.what if not problem.why else why_not_run(problem)
            ) from None
        finally:
            os.close(nowhere)
            os.close(descriptor)

    def _record(self, provider: str, command: Command) -> None:
        reason = f"{provider} as uid {command.uid}"
        event = AdminOperation(
            op="credential helper", decision="allow", peer_uid=command.uid, reason=reason
        )
        self._journal.record(event, durable=False)

    async def _attend(self, process: Process) -> None:
        late = self._reactor.callLater(_TIMEOUT, process.kill_session)
        status = await process.wait()
        cancel(late)
        if status:
            raise Failed("U105", f"ended with status {status}" if status > 0 else "was killed")


def why_not_run(problem: Failed) -> str:
    if isinstance(problem, NotStarted) and problem.not_found:
        return "was not run: there is no such program"
    if isinstance(problem, NotStarted) and problem.not_allowed:
        return "was not run: its user may not execute it"
    return f"was not run: {problem.why}"[:300]


@implementer(IFileDescriptorReceiver)
class _Connection(Protocol):
    """Lines from the broker, each with a descriptor that arrives with or before its last byte."""

    def __init__(self, link: HelperLink) -> None:
        self._link = link
        self._lines = LineReader(_LINE_LIMIT)
        self._descriptors: list[int] = []
        self._greeted = False

    def connectionMade(self) -> None:
        self._link.made(self)
        self._transport.write(line_of({"op": "helpers"}))

    @property
    def _transport(self) -> Any:
        return self.transport

    def fileDescriptorReceived(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self._descriptors.append(descriptor)

    def dataReceived(self, data: bytes) -> None:
        try:
            lines = self._lines.feed(data)
        except TooLong:
            self.hang_up()
            return
        for line in lines:
            self._line(line)

    def _line(self, line: bytes) -> None:
        if not self._greeted:
            self._greeted = True
            return
        try:
            message = object_of(line) or {}
            number, provider = int(message["id"]), str(message["provider"])
            descriptor = self._descriptors.pop(0)
        except (ValueError, TypeError, KeyError, IndexError):
            _log.error("the broker sent what is not a request")
            self.hang_up()
            return
        done = Deferred.fromCoroutine(self._link.run(provider, descriptor))
        done.addErrback(self._tell, number)
        done.addErrback(lambda failure: _log.failure("a helper's run failed", failure))

    def _tell(self, failure: Failure, number: int) -> None:
        failure.trap(Failed)
        answer = {"id": number, "what": str(getattr(failure.value, "what", ""))}
        self._transport.write(line_of(answer))

    def hang_up(self) -> None:
        self._transport.abortConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()
        self._link.lost()

"""hostd's link: the broker may start nothing, so hostd runs the owner's credential helpers.

hostd keeps one connection to the admin socket. The broker sends the name of a provider and one end
of a socket pair, which becomes the helper's stdin and stdout. Which command that is, and whose, is
for hostd to read from root's configuration; the answer goes past it.
"""

from __future__ import annotations

import json
import socket
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

log = Logger()

# A helper's end is told within this time of its answer's end, or not at all.
_REASON_SECONDS = 2.0
_WAITING = 64


@define(eq=False)
class HelperLink:
    _clock: Any
    _transport: Any = field(init=False, default=None)
    _next: int = field(init=False, default=0)
    _reasons: dict[int, Deferred[str]] = field(init=False, factory=dict)

    def attend(self, transport: Any) -> None:
        """The newest connection counts: hostd may have been restarted."""
        old, self._transport = self._transport, transport
        if old is not None:
            old.abortConnection()
        transport.socket.send(b'{"ok": true}\n')

    def lost(self, transport: Any) -> None:
        if self._transport is transport:
            self._transport = None
            for number in tuple(self._reasons):
                self._tell(number, "hostd went away")

    def heard(self, line: bytes) -> None:
        """{"id", "what"}: how a helper ended, if it did not end well."""
        try:
            message = json.loads(line)
            self._tell(int(message["id"]), str(message["what"])[:300])
        except (ValueError, TypeError, KeyError, RecursionError):
            log.error("hostd's link is not understood")

    def run(self, provider: str) -> tuple[socket.socket, int] | None:
        """Our end of the helper's stdin and stdout, and its number; None without a hostd."""
        if self._transport is None or len(self._reasons) >= _WAITING:
            return None
        ours, theirs = socket.socketpair()
        self._next += 1
        request = json.dumps({"id": self._next, "provider": provider}).encode() + b"\n"
        with theirs:
            try:
                # By hand: a transport of Twisted's sends a descriptor some time later.
                sent = socket.send_fds(self._transport.socket, [request], [theirs.fileno()])
            except OSError:
                sent = 0
        if sent != len(request):
            ours.close()
            self._transport.abortConnection()
            return None
        ours.setblocking(False)
        self._reasons[self._next] = Deferred()
        return ours, self._next

    def reason(self, number: int) -> Deferred[str]:
        """Why there was no answer, as hostd knows it; empty when it does not say."""
        reason = self._reasons.get(number)
        if reason is None:
            return succeed("")
        self._clock.callLater(_REASON_SECONDS, self._tell, number, "")
        return reason

    def forget(self, number: int) -> None:
        self._reasons.pop(number, None)

    def _tell(self, number: int, what: str) -> None:
        """What is told before anybody asks waits in the deferred."""
        reason = self._reasons.get(number)
        if reason is not None and not reason.called:
            reason.callback(what)

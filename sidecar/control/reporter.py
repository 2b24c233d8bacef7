"""Sends reports to the broker, one at a time, over a connection of the pool."""

from __future__ import annotations

from typing import Final

from attrs import define, field
from twisted.internet.defer import CancelledError
from twisted.python.failure import Failure

from gitmoat.messages.report import Report, format_report
from gitmoat.net.causes import Why
from gitmoat.net.http.client_end import ClientConnection
from gitmoat.net.timing import Timer, cancel
from gitmoat.wire.http.heads import Length, Piece, ResponseHead, format_request, framing_headers
from sidecar.control.report_queue import Reports
from sidecar.link.connection_pool import BrokerUnreachable, ConnectionPool, Proof, Share
from sidecar.loop import Clock

# While the broker is away reports wait here, merged; trying is the pool's business, not ours.
PAUSE: Final = 5.0


@define(eq=False)
class Reporter:
    """Call it with a report. What cannot be sent now waits, within the bounds of `Reports`."""

    _clock: Clock
    _pool: ConnectionPool[ClientConnection]
    _reports: Reports
    _busy: bool = field(default=False, init=False)
    _timer: Timer | None = field(default=None, init=False)
    _closed: bool = field(default=False, init=False)

    def __call__(self, report: Report) -> None:
        self._reports.add(report)
        self._schedule(0.0)

    def close(self) -> None:
        self._closed = True
        cancel(self._timer)

    def _schedule(self, least: float) -> None:
        delay = self._reports.delay()
        if delay is None or self._busy or self._closed or (self._timer and self._timer.active()):
            return
        self._timer = self._clock.callLater(max(least, delay), self._send_next)

    def _send_next(self) -> None:
        self._timer = None
        report = self._reports.take()
        if report is None:
            self._schedule(0.0)
            return
        self._busy = True
        link = self._pool.acquire(Share.TRUSTED)
        link.addCallbacks(self._send, self._failed, callbackArgs=(report,), errbackArgs=(report,))

    def _send(self, link: ClientConnection, report: Report) -> None:
        body = format_report(report)
        framing = Length(len(body))
        headers = (
            (b"Host", b"gitmoat"),
            (b"Content-Type", b"application/json"),
            *framing_headers(framing),
        )
        sink = _Answer(self, link, report)
        out = link.send(format_request(b"POST", b"/report", headers), framing, sink)
        out.write(body)
        out.finish()

    def _failed(self, failure: Failure, report: Report) -> None:
        if not isinstance(failure.value, BrokerUnreachable | CancelledError):
            failure.raiseException()
        self.unsent(report)

    # What the answer tells

    def sent(self, link: ClientConnection) -> None:
        """Whatever the broker said to it: a report it refuses once, it refuses again."""
        self._busy = False
        self._pool.release(link, Proof.ANSWERED)
        self._schedule(0.0)

    def lost(self, link: ClientConnection, report: Report) -> None:
        self._pool.release(link, Proof.FAILED)
        self.unsent(report)

    def unsent(self, report: Report) -> None:
        self._busy = False
        self._reports.add(report)
        self._schedule(PAUSE)


@define(eq=False)
class _Answer:
    _reporter: Reporter
    _link: ClientConnection
    _report: Report

    def response(self, head: ResponseHead) -> None:
        """Its status changes nothing here."""

    def body(self, *pieces: Piece) -> None:
        """Nobody reads it."""

    def body_done(self) -> None:
        self._reporter.sent(self._link)

    def failed(self, why: Why) -> None:
        self._reporter.lost(self._link, self._report)

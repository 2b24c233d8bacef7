"""One transport: the only module here that knows Twisted's producers, TLS and half-closing.

Connections and relay do not know which transport is below: our own (descriptor, tls) on the data
path, Twisted's where few bytes move.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, cast

from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer


class Transport(Protocol):
    """What we ask of a Twisted stream transport, plain or TLS."""

    def writeSequence(self, data: Sequence[bytes | memoryview], /) -> None: ...
    def loseConnection(self) -> None: ...
    def loseWriteConnection(self) -> None: ...
    def abortConnection(self) -> None: ...
    def pauseProducing(self) -> None: ...
    def resumeProducing(self) -> None: ...
    def registerProducer(self, producer: Any, streaming: bool, /) -> None: ...
    def unregisterProducer(self) -> None: ...


@implementer(IPushProducer)
class Wire:
    """Reading is held while anybody has a reason for it; `on_flow` tells when writing blocks.

    We stay registered as the transport's producer for its whole life: unregistering a paused
    producer never resumes it, and resuming it by hand behind TLS would end back-pressure.
    """

    def __init__(self, transport: object, secure: bool, on_flow: Callable[[], None]) -> None:
        self.transport = cast(Transport, transport)
        self.blocked = False
        self._secure = secure
        self._on_flow = on_flow
        self.held = False
        self._reasons: set[Hashable] = set()
        self._reading = True
        self._writing = True
        self._gone = False
        # Twisted's own take bytes only.
        self._views: bool = getattr(transport, "takes_views", False)
        _send_at_once(transport)
        self.transport.registerProducer(self, True)

    def write(self, pieces: Sequence[bytes | memoryview]) -> None:
        if self._writing:
            self.transport.writeSequence(pieces if self._views else [*map(bytes, pieces)])

    def hold(self, reason: Hashable) -> None:
        if not self.held and self._reading:
            self.transport.pauseProducing()
        self._reasons.add(reason)
        self.held = True

    def release(self, reason: Hashable) -> None:
        if reason in self._reasons:
            self._reasons.remove(reason)
            self.held = bool(self._reasons)
            if not self.held and self._reading:
                self.transport.resumeProducing()

    def release_all(self) -> None:
        for reason in tuple(self._reasons):
            self.release(reason)

    def ended(self) -> None:
        """The peer sends no more: resuming would only find the same end again."""
        self._reading = False

    def lost(self) -> None:
        self._reading = self._writing = False
        self._gone = True

    def finish(self) -> None:
        """Send what is written, then our end; keep reading, so that the peer gets no reset."""
        if self._stop_writing():
            self.release_all()
            if self._secure:
                # Sends close_notify and goes on reading until the peer's own.
                self.transport.loseConnection()
            else:
                self.transport.loseWriteConnection()

    def close(self) -> None:
        """Close for a peer that has nothing more to say."""
        self._stop_writing()
        if not self._gone:
            self.release_all()
            self.transport.loseConnection()

    def abort(self) -> None:
        """Close so that the peer cannot take it for an orderly end."""
        self._stop_writing()
        self._reading = False
        if not self._gone:
            self.transport.abortConnection()

    def pauseProducing(self) -> None:
        self.blocked = True
        self._on_flow()

    def resumeProducing(self) -> None:
        self.blocked = False
        self._on_flow()

    def stopProducing(self) -> None:
        """The connection is being lost; the protocol hears it by itself."""

    def _stop_writing(self) -> bool:
        """A transport with a producer never finishes closing, so ours goes first."""
        if not self._writing:
            return False
        self._writing = False
        self.transport.unregisterProducer()
        return True


def _send_at_once(transport: object) -> None:
    set_no_delay = getattr(transport, "setTcpNoDelay", None)
    if set_no_delay is not None:
        set_no_delay(True)

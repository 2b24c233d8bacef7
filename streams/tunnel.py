"""Joins two raw ends: octets both ways in constant memory, until one of them has ended."""

from collections.abc import Callable

from attrs import frozen

from gitwire.errors import Malformed
from streams.causes import Cause, Why
from streams.raw import Raw
from streams.timing import Alarm, Clock

OPENING = 10.0
LINGER = 30.0

# Gets what the client sends first, as it comes; returns what may go on, or None to wait for more.
# Malformed: nothing goes on at all.
Opening = Callable[[bytes], bytes | None]


@frozen
class Ended:
    """`why` we ended it; None where its peers did."""

    bytes_up: int
    bytes_down: int
    why: Why | None = None


class Tunnel:
    """`on_end` is called once, when neither end can move anything any more.

    The end of either peer is the end of both directions: behind TLS there is no half of one.
    """

    def __init__(
        self,
        clock: Clock,
        client: Raw,
        upstream: Raw,
        idle: float,
        on_end: Callable[[Ended], None],
        opening: Opening | None = None,
        spend: Callable[[int], str | None] = lambda octets: None,
    ) -> None:
        """`spend` counts what moves, and gives a code when it is too much."""
        self._client = client
        self._upstream = upstream
        self._idle = idle
        self._on_end = on_end
        self._opening = opening
        self._spend = spend
        self._alarm = Alarm(clock, self._ring)
        self._over = False
        self._finishing = False
        self._left = {client, upstream}
        self.bytes_up = 0
        self.bytes_down = 0

    def start(self, prelude: bytes = b"") -> None:
        """`prelude` is what the client has said before."""
        self._alarm.set(self._idle if self._opening is None else OPENING)
        if prelude:
            self.from_client(prelude)
        self._upstream.attach(_End(self, self._upstream, self._client, self.from_upstream))
        if not self._over:
            self._client.attach(_End(self, self._client, self._upstream, self.from_client))

    def cut(self, why: Why) -> None:
        """End it from outside, at once."""
        self._end(Ended(self.bytes_up, self.bytes_down, why))

    def from_client(self, octets: bytes) -> None:
        if self._opening is not None:
            passed = self._open(self._opening, octets)
            if passed is None:
                return
            octets = passed
        if self._moved(octets):
            self.bytes_up += len(octets)
            self._pass(octets, self._client, self._upstream)

    def from_upstream(self, octets: bytes) -> None:
        if self._moved(octets):
            self.bytes_down += len(octets)
            self._pass(octets, self._upstream, self._client)

    def _open(self, opening: Opening, octets: bytes) -> bytes | None:
        try:
            passed = opening(octets)
        except Malformed as malformed:
            self.cut(Why(Cause.NOT_OPENED, malformed.what))
            return None
        if passed is not None:
            self._opening = None
        return passed

    def _moved(self, octets: bytes) -> bool:
        if self._over:
            return False
        if self._opening is None and not self._finishing:
            self._alarm.set(self._idle)
        code = self._spend(len(octets))
        if code is not None:
            self.cut(Why(Cause.QUOTA, code=code))
        return code is None

    def _pass(self, octets: bytes, source: Raw, sink: Raw) -> None:
        sink.write(octets)
        if sink.blocked:
            source.hold()

    # What the ends tell

    def flowed(self, end: Raw, other: Raw) -> None:
        if end.blocked:
            other.hold()
        else:
            other.release()

    def finished(self, end: Raw, other: Raw) -> None:
        """What came is still delivered to the other one."""
        if not self._over and not self._finishing:
            self._finishing = True
            self._alarm.set(LINGER)
            other.release()
            other.finish()
            end.finish()

    def lost(self, end: Raw, other: Raw, cleanly: bool) -> None:
        self._left.discard(end)
        if self._over:
            return
        if not self._left:
            self._settle(Ended(self.bytes_up, self.bytes_down))
        elif cleanly:
            self.finished(end, other)
        else:
            self._end(Ended(self.bytes_up, self.bytes_down))

    def _ring(self) -> None:
        if self._finishing:
            self._end(Ended(self.bytes_up, self.bytes_down))
        else:
            self.cut(Why(Cause.IDLE if self._opening is None else Cause.NOT_OPENED))

    def _end(self, ended: Ended) -> None:
        if not self._over:
            self._settle(ended)
            self._client.abort()
            self._upstream.abort()

    def _settle(self, ended: Ended) -> None:
        self._over = True
        self._alarm.clear()
        self._on_end(ended)


@frozen(eq=False)
class _End:
    """One end, as the tunnel hears it."""

    tunnel: Tunnel
    end: Raw
    other: Raw
    take: Callable[[bytes], None]

    def data(self, octets: bytes) -> None:
        self.take(octets)

    def ended(self) -> None:
        self.tunnel.finished(self.end, self.other)

    def lost(self, cleanly: bool) -> None:
        self.tunnel.lost(self.end, self.other, cleanly)

    def flowed(self) -> None:
        self.tunnel.flowed(self.end, self.other)

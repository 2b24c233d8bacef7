"""Joins two raw ends: octets both ways in constant memory, until one of them has ended."""

from collections.abc import Callable

from attrs import define, frozen
from twisted.internet.defer import Deferred

from gitmoat.net.causes import Cause, Why
from gitmoat.net.stages import Pieces, Stages, finish, pass_on
from gitmoat.net.timing import Clock, Timeout
from gitmoat.net.tunnel_end import TunnelEnd
from gitmoat.wire.malformed import Malformed

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
    """Two ends that are joined until neither can move anything any more. To be started once.

    It owns both from its making to its end. The end of either peer is the end of both directions:
    what it said is still sent to the other, and what the other says is dropped (RFC 9110, section
    9.3.6). A client that has ended is owed nothing more, so nothing is
    waited for once the upstream has what it said; a client that has not is given `LINGER` seconds
    to read what the upstream has said. Cancelling what `start` returned cuts both, and leaves no
    Ended: what moved until then is in `bytes_up` and `bytes_down`.
    """

    def __init__(
        self,
        clock: Clock,
        client: TunnelEnd,
        upstream: TunnelEnd,
        idle: float,
        opening: Opening | None = None,
        *,
        up: Stages = (),
        down: Stages = (),
    ) -> None:
        """The stages hear of what the client sends once `opening` lets it go on."""
        self._idle = idle
        self._timeout = Timeout(clock, self._expired)
        self._up = _Direction(self, client, upstream, up, opening)
        self._down = _Direction(self, upstream, client, down)
        self._left = {client, upstream}
        self._finishing = self._client_ended = False
        self.over = False
        self._done: Deferred[Ended] = Deferred(self._cancelled)

    @property
    def bytes_up(self) -> int:
        return self._up.moved

    @property
    def bytes_down(self) -> int:
        return self._down.moved

    def start(self, prelude: bytes = b"") -> Deferred[Ended]:
        """`prelude` is what the client has said before. Of a tunnel that was cut before, the end
        is there at once."""
        if not self.over:
            self._timeout.set(self._idle if self._up.opening is None else OPENING)
            if prelude:
                self._up.data(prelude)
        for direction in (self._down, self._up):
            if not self.over:
                direction.source.attach(direction)
        return self._done

    def cut(self, why: Why) -> None:
        """End it from outside, at once."""
        self._end(why)

    # What the directions tell

    def moving(self) -> None:
        if not self._finishing and self._up.opening is None:
            self._timeout.set(self._idle)

    def finished(self, first: "_Direction") -> None:
        """What came is still delivered to the other peer; nothing more is to the one that ended."""
        if self.over or self._finishing:
            return
        self._finishing = True
        self._client_ended = first is self._up
        self._timeout.set(LINGER)
        for direction in (first, self.opposite(first)):
            if not self.over:
                direction.finish()

    def sent(self, direction: "_Direction") -> None:
        """All that this direction had to move has left us."""
        if self._client_ended and direction is self._up and self._close(TunnelEnd.close):
            self._done.callback(Ended(self.bytes_up, self.bytes_down))

    def opposite(self, direction: "_Direction") -> "_Direction":
        return self._down if direction is self._up else self._up

    def lost(self, direction: "_Direction", cleanly: bool) -> None:
        self._left.discard(direction.source)
        if cleanly and self._left:
            self.finished(direction)
        else:
            self._end(None)

    def _expired(self) -> None:
        if self._finishing:
            self._end(None)
        else:
            self.cut(Why(Cause.IDLE if self._up.opening is None else Cause.NOT_OPENED))

    def _end(self, why: Why | None) -> None:
        if self._close():
            self._done.callback(Ended(self.bytes_up, self.bytes_down, why))

    def _close(self, close: Callable[[TunnelEnd], None] = TunnelEnd.abort) -> bool:
        """Settle both ends; whether they were not settled before."""
        if self.over:
            return False
        self.over = True
        self._timeout.clear()
        for each in (self._up.source, self._up.sink):
            close(each)
        return True

    def _cancelled(self, _: "Deferred[Ended]") -> None:
        self._close()


@define(eq=False)
class _Direction:
    """What one end says, on its way to the other."""

    tunnel: Tunnel
    source: TunnelEnd
    sink: TunnelEnd
    stages: Stages
    opening: Opening | None = None
    moved: int = 0

    def data(self, octets: bytes) -> None:
        if self.tunnel.over:
            return
        if self.opening is not None:
            passed = self._open(self.opening, octets)
            if passed is None:
                return
            octets = passed
        self.tunnel.moving()
        self._pass(*pass_on(self.stages, (octets,)) if self.stages else ((octets,), None))

    def ended(self) -> None:
        self.tunnel.finished(self)

    def all_sent(self) -> None:
        """Of the source, as a sink of the other direction."""
        self.tunnel.sent(self.tunnel.opposite(self))

    def lost(self, cleanly: bool) -> None:
        self.tunnel.lost(self, cleanly)

    def flowed(self) -> None:
        """Of the source, as a sink of the other direction."""
        if self.source.blocked:
            self.sink.hold()
        else:
            self.sink.release()

    def finish(self) -> None:
        """Nothing more goes to the sink."""
        if self.stages:
            self._pass(*finish(self.stages))
        self.sink.release()
        self.sink.finish()

    def _open(self, opening: Opening, octets: bytes) -> bytes | None:
        try:
            passed = opening(octets)
        except Malformed as malformed:
            self.tunnel.cut(Why(Cause.NOT_OPENED, malformed.what))
            return None
        if passed is not None:
            self.opening = None
        return passed

    def _pass(self, pieces: Pieces, why: Why | None) -> None:
        self.moved += sum(map(len, pieces))
        self.sink.write(*pieces)
        if self.sink.blocked:
            self.source.hold()
        if why is not None:
            self.tunnel.cut(why)

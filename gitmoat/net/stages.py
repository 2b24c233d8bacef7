"""What sees the pieces of a transfer on their way through us, may change them, and may end it.

Relay and Tunnel take the stages of each direction as a list. A piece passes them in their order
and then goes to the peer; where there are none, it is neither joined, copied nor looked at.
"""

from collections.abc import Sequence

from attrs import define, frozen

from gitmoat.limits.quota import ByteQuota
from gitmoat.net.causes import Cause, Why
from gitmoat.wire.http.heads import Piece

Pieces = Sequence[Piece]


@frozen
class Stop:
    """The end of the transfer, once `pieces` have gone on."""

    why: Why
    pieces: Pieces = ()


class Stage:
    """One look at one direction of one transfer: subclass it and write `feed`.

    It is called where the bytes arrive, so it decides at once: holding a peer back is the
    transfer's. It is made anew for every transfer; a count over several transfers is handed to it.
    A piece may be a view of a larger one, which it keeps in memory: copy what is held back.

    Where a stage changes how much passes, its user sees to the head that goes before: it
    announces what comes out, or no length at all. Between a Stop and its effect nothing else is
    fed. A stage of a request may raise Malformed for what the client sends (never for a prelude,
    nor where there is no body): its connection answers that and ends, and the transfer is Broken.
    """

    def feed(self, pieces: Pieces) -> Pieces | Stop:
        """What goes on now instead of `pieces`: the same ones, others, or none yet."""
        raise NotImplementedError

    def finish(self) -> Pieces | Stop:
        """The direction has ended in order, so that what was held back goes on or stops it.

        Not called where the transfer is cut or stopped: what is held back then never goes on.
        """
        return ()

    def last_words(self, why: Why) -> bytes | None:
        """An answer that has begun, whose length was not announced, is ended by us or was lost by
        its upstream: what makes it whole where this stage has got to. None: this stage cannot."""
        return None


Stages = Sequence[Stage]


@define(eq=False)
class Quota(Stage):
    """Counts into a budget that both directions, and several transfers, share."""

    _budget: ByteQuota
    _why: Why

    def feed(self, pieces: Pieces) -> Pieces | Stop:
        within = self._budget.spend(sum(map(len, pieces)))
        return pieces if within else Stop(self._why)


@define(eq=False)
class Size(Stage):
    """At most so many bytes; nothing goes on of the pieces that exceed them."""

    _left: int
    _cause: Cause

    def feed(self, pieces: Pieces) -> Pieces | Stop:
        self._left -= sum(map(len, pieces))
        return pieces if self._left >= 0 else Stop(Why(self._cause))


def pass_on(stages: Stages, pieces: Pieces) -> tuple[Pieces, Why | None]:
    """What comes out behind the last stage; and why the transfer then ends, if a stage said so."""
    why: Why | None = None
    for stage in stages:
        passed = stage.feed(pieces)
        if isinstance(passed, Stop):
            why, passed = why or passed.why, passed.pieces
        pieces = passed
    return pieces, why


def finish(stages: Stages) -> tuple[Pieces, Why | None]:
    """As `pass_on`, at the direction's end: what a stage held back passes those behind it."""
    out: list[Piece] = []
    for at, stage in enumerate(stages, 1):
        held, why = _split(stage.finish())
        pieces, later = pass_on(stages[at:], held) if held else ((), None)
        out += pieces
        if why or later:
            return out, why or later
    return out, None


def _split(passed: Pieces | Stop) -> tuple[Pieces, Why | None]:
    return (passed.pieces, passed.why) if isinstance(passed, Stop) else (passed, None)


def last_words(stages: Stages, why: Why) -> Pieces | None:
    """Of the first stage that has any, as they come out behind the last one."""
    for at, stage in enumerate(stages, 1):
        words = stage.last_words(why)
        if words is not None:
            behind = stages[at:]
            pieces, _ = pass_on(behind, (words,))
            return [*pieces, *finish(behind)[0]]
    return None

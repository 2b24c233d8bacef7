"""The relay of `streams`, with an eye on what an upstream's answer says and how long it is.

Git servers send the head of an answer before they have one: `git http-backend` does at once. So
most refusals come too late for a status, and are written into the body, in git's own form, where
that is still possible.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from broker.answers import AnswerFilter
from gitwire.framing import Length
from gitwire.gzipped import GzipReader
from gitwire.http import Piece, ResponseHead
from streams.causes import Cause, Why
from streams.relay import Refuse, Relay, Relayed


@frozen
class Ending:
    """Words of ours that end an answer of the upstream's."""

    code: str
    body: bytes


class GitRelay(Relay):
    """Cleans the answer's text; ends an answer that went wrong with a message of ours.

    Malformed, raised for a request's body, is answered by the connection it came on.
    """

    answers: AnswerFilter
    ending: Callable[[Why], Ending | None]
    packed: GzipReader | None = None
    ended: Ending | None = None
    spend: Callable[[int], bool]  # of the session's bytes; False when they are used up
    _open_ended: bool = False
    _up_holds: bool = False

    def to_upstream(self, *pieces: Piece) -> None:
        if self.packed is not None and not self._over:
            self.packed.feed(b"".join(pieces))
        if self._over or self.spend(sum(map(len, pieces))):
            super().to_upstream(*pieces)
        else:
            self._unanswered(Why(Cause.QUOTA))

    def request_done(self) -> None:
        if self.packed is not None and not self._over:
            self.packed.finish()
        super().request_done()

    def answered(self, head: ResponseHead) -> None:
        self._open_ended = not isinstance(head.framing, Length)
        super().answered(head)

    def to_client(self, *pieces: Piece) -> None:
        if self._over or self._down is None:
            return
        data = b"".join(pieces)  # which is the one piece that most answers come in
        # A push's report is never held back: what it tells has happened.
        if not self.spend(len(data)) and not self.answers.report:
            self.answers.stop()
        super().to_client(self.answers.feed(data))
        if self.answers.over:
            self._end_now(self._cause_over())

    def _cause_over(self) -> Cause:
        if self.answers.too_fine:
            return Cause.TOO_FINE
        return Cause.QUOTA if self.answers.stopped else Cause.ANSWER_TOO_LARGE

    def _end_now(self, cause: Cause) -> None:
        why = Why(cause)
        if not self._end_well(why):
            self.cut(why)

    @property
    def waits_for_client(self) -> bool:
        """Whether nothing but the client's own sending or reading holds things up now."""
        sending = not self._incoming.body_ended and not self._up_holds
        return sending or self._incoming.blocked

    def _hold_client(self) -> None:
        self._up_holds = True
        super()._hold_client()

    def _release_client(self) -> None:
        self._up_holds = False
        super()._release_client()

    def stop(self) -> None:
        """At once, and in words where the answer allows it: git takes a cut push for no news."""
        self._end_now(Cause.STOPPED)

    def too_slow(self) -> None:
        self._unanswered(Why(Cause.SLOW))

    def upstream_failed(self, why: Why) -> None:
        if why.cause is Cause.NO_REQUEST or not self._end_well(why):
            super().upstream_failed(why)

    def _unanswered(self, why: Why, refused: Refuse | None = None) -> None:
        if not self._end_well(why):
            super()._unanswered(why, refused)

    def _end_well(self, why: Why) -> bool:
        """Whether the answer could be ended in words; else nothing has happened."""
        down = self._down
        if self._over or down is None or not self._open_ended or not self.answers.between:
            return False
        self.ended = self.ending(why)
        if self.ended is None:
            return False
        self._over = True
        self._incoming.discard(self._discard_limit)
        down.write(self.ended.body)
        down.finish()
        self._client.abort()
        self.done.callback(Relayed(self._status, self.bytes_up, self.bytes_down))
        return True

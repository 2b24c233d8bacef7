"""The stages of a git request: what the broker looks at while bodies stream by.

Git servers send the head of an answer before they have one: `git http-backend` does at once. So
most refusals come too late for a status, and are written into the body, in git's own form, where
that is still possible.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define

from broker.kinds.git_answers import AnswerFilter
from gitmoat.limits.quota import ByteQuota
from gitmoat.net.causes import Cause, Why
from gitmoat.net.stages import Pieces, Stage, Stop
from gitmoat.wire.http.gzipped import GzipReader


@define(eq=False)
class GzippedRequest(Stage):
    """Passes a compressed body on as it is, unless it unpacks to what no server should see."""

    _reader: GzipReader

    def feed(self, pieces: Pieces) -> Pieces:
        self._reader.feed(b"".join(pieces))
        return pieces

    def finish(self) -> Pieces:
        self._reader.finish()
        return ()


@define(eq=False)
class GitAnswer(Stage):
    """Cleans the answer's text, and ends an answer that is too much between two pkt-lines."""

    _filter: AnswerFilter
    _budget: ByteQuota
    _words: Callable[[Why], bytes | None]

    def feed(self, pieces: Pieces) -> Pieces | Stop:
        data = b"".join(pieces)  # which is the one piece that most answers come in
        # A push's report is never held back: what it tells has happened.
        if not self._budget.spend(len(data)) and not self._filter.report:
            self._filter.stop()
        passed = (self._filter.feed(data),)
        return Stop(Why(self._cause()), passed) if self._filter.over else passed

    def last_words(self, why: Why) -> bytes | None:
        return self._words(why) if self._filter.between else None

    def _cause(self) -> Cause:
        if self._filter.too_fine:
            return Cause.TOO_FINE
        return Cause.QUOTA if self._filter.stopped else Cause.ANSWER_TOO_LARGE

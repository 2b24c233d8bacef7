"""The relay of `streams`, with an eye on what an upstream's answer says and how long it is."""

from __future__ import annotations

from collections.abc import Sequence

from broker.answers import AnswerFilter
from streams.relay import Relay, Relayed


class GitRelay(Relay):
    """Cleans the answer's text; ends an answer over the limit with a message of ours."""

    answers: AnswerFilter
    farewell: Sequence[str]

    def to_client(self, data: bytes) -> None:
        if self._over or self._down is None:
            return
        super().to_client(self.answers.feed(data))
        if self.answers.over and not self._over:
            self._end_early()

    def _end_early(self) -> None:
        if self.answers.raw:
            self.cut("answer is too large")
            return
        self._over = True
        # The message first: cutting the upstream's connection resumes whoever it had paused.
        assert self._down is not None  # noqa: S101 - to_client checked it
        self._incoming.discard(self._discard_limit)
        self._down.write(self.answers.farewell(self.farewell))
        self._down.finish()
        self._client.abort()
        self.done.callback(Relayed(self._status, self.bytes_up, self.bytes_down))

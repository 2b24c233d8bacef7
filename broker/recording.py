"""One sync of the journal for all that was decided in one turn of the reactor."""

from __future__ import annotations

from attrs import define, field
from twisted.internet.defer import Deferred, fail

from audit.events import Event
from audit.journal import Journal, JournalUnavailable
from streams.http import Clock


@define(eq=False)
class Recorder:
    """A disk takes as long to sync one record as a hundred; whoever waits for it waits together."""

    _clock: Clock
    _journal: Journal
    _waiting: list[Deferred[None]] = field(factory=list, init=False)

    def record(self, event: Event) -> Deferred[None]:
        """Fires when it is on disk; fails with JournalUnavailable when that is not known."""
        try:
            self._journal.record(event, durable=False)
        except JournalUnavailable as error:
            return fail(error)
        if not self._waiting:
            self._clock.callLater(0, self._sync)
        done: Deferred[None] = Deferred()
        self._waiting.append(done)
        return done

    def _sync(self) -> None:
        waiting, self._waiting = self._waiting, []
        try:
            self._journal.sync()
        except JournalUnavailable as error:
            for done in waiting:
                done.errback(error)
        else:
            for done in waiting:
                done.callback(None)

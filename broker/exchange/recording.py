"""Records in the journal: before what they allow happens, and of what has happened anyway."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.defer import Deferred, fail
from twisted.logger import Logger
from twisted.python.failure import Failure

from gitmoat.audit.events import Event
from gitmoat.audit.journal import Journal, JournalUnavailable
from gitmoat.fault import Fault
from gitmoat.net.http.ends import Clock

log = Logger()

Waiting = list[Deferred[None]]


def unrecorded(error: JournalUnavailable) -> Fault:
    return Fault(
        error.code, "the audit journal cannot be written", error.what, "free space on its disk"
    )


def record_first(journal: Journal, event: Event, durable: bool = True) -> None:
    """What cannot be recorded does not happen: Fault."""
    try:
        journal.record(event, durable=durable)
    except JournalUnavailable as error:
        raise unrecorded(error) from None


def record_or_log(journal: Journal, event: Event, durable: bool = False) -> None:
    """It has happened, or is refused, whether or not it can be recorded."""
    try:
        journal.record(event, durable=durable)
    except JournalUnavailable as error:
        told = event.fields()
        who = told.get("req") or told.get("session") or ""
        log.error("{event} {who} not recorded: {what}", event=event.event, who=who, what=error.what)


@define(eq=False)
class Recorder:
    """One sync of the journal for all that was decided while the one before it was under way.

    A disk takes as long to sync one record as a hundred.

    `apart` does what it is given in another thread: a slow disk holds up nobody else.
    """

    _clock: Clock
    _journal: Journal
    _disk: Callable[[Callable[[], None]], Deferred[None]]
    _waiting: Waiting = field(factory=list, init=False)
    _syncing: bool = field(default=False, init=False)

    def record(self, event: Event) -> Deferred[None]:
        """Fires when it is on disk; fails with JournalUnavailable when that is not known."""
        try:
            self._journal.record(event, durable=False)
        except JournalUnavailable as error:
            return fail(error)
        if not self._waiting and not self._syncing:
            self._clock.callLater(0, self._sync)
        done: Deferred[None] = Deferred()
        self._waiting.append(done)
        return done

    def _sync(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._syncing = True
        self._disk(self._journal.syncing()).addBoth(self._synced, waiting)

    def _synced(self, result: Failure | None, waiting: Waiting) -> None:
        self._syncing = False
        error = self._journal.synced(None if result is None else result.value)
        if self._waiting:
            self._sync()
        for done in waiting:
            if error is None:
                done.callback(None)
            else:
                done.errback(error)

"""What runs for a session: one registry, through which its end and another policy cut all of it.

Whatever is opened for a session is opened with its entry here: taking a credential, dialling an
upstream and dialling another host all ask for one. So a new kind of work cannot forget it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from attrs import define, field, frozen
from twisted.logger import Logger

from broker.errors import Unavailable
from netpolicy.policy import Policy

log = Logger()


class Task(Protocol):
    """One thing that runs for a session."""

    @property
    def name(self) -> str: ...
    @property
    def busy(self) -> bool:
        """Whether it keeps the session from being silent."""

    @property
    def awaited(self) -> bool:
        """Whether a broker that ends lets it come to its own end."""

    def rescope(self, policy: Policy) -> str | None:
        """Go on under this policy; the code to be cut with when it does not allow that."""

    def cut(self, code: str) -> None:
        """End now, and tell the client this code if it can still be told."""


@define(eq=False)
class Entry:
    """A task's place in the registry, from `Running.enter` to `leave`."""

    session: str
    task: Task
    _leave: Callable[[Entry], None]
    live: bool = True

    def leave(self) -> None:
        """It has ended, and opens nothing any more."""
        self.live = False
        self._leave(self)

    def check(self) -> None:
        """Unavailable when it was cut or has ended: then nothing is opened for it."""
        if not self.live:
            raise Unavailable("S101", "this session has ended", "what asked for it is over")


@frozen
class AdminTask:
    """Something that the broker does for its admin: no session's end has a part in it."""

    what: str

    @property
    def session(self) -> str:
        return ""

    def check(self) -> None:
        """It ends when it is done."""


# What every connection is opened for, and every credential taken for.
Permit = Entry | AdminTask


@define(eq=False)
class Running:
    """Of one session."""

    _session: str
    _entries: dict[Entry, int] = field(factory=dict, init=False)
    _count: int = field(default=0, init=False)
    _over: bool = field(default=False, init=False)

    def enter(self, task: Task) -> Entry:
        """What is entered is cut by the session's end, by a revocation and by another policy."""
        entry = Entry(self._session, task, self._drop, live=not self._over)
        if entry.live:
            self._count += 1
            self._entries[entry] = self._count
        return entry

    def _drop(self, entry: Entry) -> None:
        self._entries.pop(entry, None)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def busy(self) -> bool:
        """Whether anything keeps the session from being silent."""
        return any(entry.task.busy for entry in self._entries)

    @property
    def awaited(self) -> frozenset[int]:
        """The numbers of those that a broker that ends waits for."""
        found = (number for entry, number in self._entries.items() if entry.task.awaited)
        return frozenset(found)

    def end(self, code: str) -> None:
        """Cuts everything, and lets nothing in any more."""
        self._over = True
        for entry in tuple(self._entries):
            self._cut(entry, code)

    def rescope(self, policy: Policy) -> int:
        """Cuts what this policy does not allow; how many."""
        denied = [(each, code) for each in tuple(self._entries) if (code := _judged(each, policy))]
        for entry, code in denied:
            self._cut(entry, code)
        return len(denied)

    def _cut(self, entry: Entry, code: str) -> None:
        entry.leave()
        try:
            entry.task.cut(code)
        except Exception:  # noqa: BLE001 - a fault in one of them leaves the others to be cut
            log.failure("{name} could not be cut in order", name=entry.task.name)


def _judged(entry: Entry, policy: Policy) -> str | None:
    """What cannot be judged is cut."""
    try:
        return entry.task.rescope(policy)
    except Exception:  # noqa: BLE001 - a fault in one of them leaves the others to be judged
        log.failure("{name} could not be judged", name=entry.task.name)
        return "B101"

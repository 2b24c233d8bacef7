"""The small interface every store has."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Protocol

from attrs import frozen


class State(Enum):
    CLOSED = "closed"
    ACTIVE = "active"
    ENDED = "ended"


@frozen
class StoredSession:
    """`deadline` is on the broker machine's boot clock, so it means nothing after a reboot."""

    id: str
    key: bytes
    host: str
    host_boot: str
    counter: int
    sandbox: str
    name: str
    runtime: str
    container: str | None
    netns: int
    epoch: int
    scope: str  # JSON of the policy mapping
    issued: int
    ttl: int
    broker_boot: str
    deadline: float
    state: State = State.CLOSED
    reason: str = ""
    pid: int | None = None
    cgroup: int | None = None
    latest: float = 0.0  # no extension goes past this, on the same clock as `deadline`


@frozen
class Moved:
    """Bytes that a sandbox's sessions have moved so far: of git, and to and from other hosts."""

    git: int = 0
    egress: int = 0


NOTHING = Moved()


@frozen
class Over:
    """How a sandbox's last session ended, and what its sessions have moved until then."""

    reason: str
    moved: Moved = NOTHING


@frozen
class AuditHead:
    seq: int
    hash: str


class StoreFailed(Exception):
    """Nothing was changed, or nothing is known to have been. The text says why."""


class StoreDamaged(StoreFailed):
    """The store cannot be trusted. The text says what was found."""


class StoreUnavailable(StoreFailed):
    """Nothing is known to be wrong with the store; its disk is full, or fails."""


class CounterSeen(Exception):
    """This host's counter was used before in this boot."""


class SessionKnown(Exception):
    """There is a session of this id or with this key."""


@frozen
class Contents:
    """Everything that a store has; `over` are the hosts' sandboxes whose sessions are over, and
    `highest_wall` is the latest wall time that was kept, 0 when none was."""

    sessions: list[StoredSession]
    over: dict[tuple[str, str], Over]
    usage: dict[str, Moved]
    highest_wall: int
    audit_head: AuditHead | None


class Store(Protocol):
    """Every call may raise StoreFailed, and each comes to an end within a time of the store's own.

    What it said is on disk when the awaited call returns. Calls may overtake each other: an end
    waits for nothing, so no other call changes a session that has ended, and none takes back what
    was moved.
    """

    def load(self) -> Contents:
        """Once, before anybody is served; the only call that waits."""

    async def admit(self, session: StoredSession) -> None:
        """Uses up the session's counter and keeps the session, both or neither (CounterSeen,
        SessionKnown)."""

    async def activate(self, session: str, pid: int, netns: int, cgroup: int | None) -> None: ...

    async def extend(self, session: str, deadline: float, latest: float) -> None: ...

    async def rescope(self, session: StoredSession, counter: int, scope: str) -> None:
        """Uses up the counter and keeps the new scope, both or neither (CounterSeen)."""

    async def end(
        self, session: str, reason: str, over: int | None = None, moved: Moved = NOTHING
    ) -> None:
        """`over`: the sandbox gets no other session, as of this wall time; also after a reboot."""

    async def renew(self, host: str, sandbox: str, was: str, reason: str) -> None:
        """Another reason why a sandbox's sessions are over, if it is still the one that it was."""

    async def forget_over(self, before: int) -> None: ...

    async def keep_wall(self, wall: int) -> None: ...

    async def forget(self, session: str) -> None:
        """Drops a session's row; its counter stays used."""

    async def keep_usage(self, moved: Mapping[str, Moved]) -> None:
        """What each of these sessions has moved; never less than before."""

    async def keep_audit_head(self, head: AuditHead) -> None: ...

    def close(self) -> None: ...

"""The small interface every store has. Each call is on disk when it returns."""

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


class Store(Protocol):
    """Every method may raise StoreFailed."""

    def admit(self, session: StoredSession) -> None:
        """Uses up the session's counter and keeps the session, both or neither (CounterSeen,
        SessionKnown)."""

    def activate(self, session: str, pid: int, netns: int, cgroup: int | None) -> None: ...

    def extend(self, session: str, deadline: float, latest: float) -> None: ...

    def rescope(self, session: StoredSession, counter: int, scope: str) -> None:
        """Uses up the counter and keeps the new scope, both or neither (CounterSeen)."""

    def end(
        self, session: str, reason: str, over: int | None = None, moved: Moved = NOTHING
    ) -> None:
        """`over`: the sandbox gets no other session, as of this wall time; also after a reboot."""

    def over(self) -> dict[tuple[str, str], Over]:
        """The hosts' sandboxes whose sessions are over."""

    def renew(self, host: str, sandbox: str, reason: str) -> None:
        """Another reason in place of the one why a sandbox's sessions are over."""

    def forget_over(self, before: int) -> None: ...

    def highest_wall(self) -> int:
        """The latest wall time that was kept; 0 when none was."""

    def keep_wall(self, wall: int) -> None: ...

    def sessions(self) -> list[StoredSession]: ...

    def forget(self, session: str) -> None:
        """Drops an ended session's row; its counter stays used."""

    def keep_usage(self, moved: Mapping[str, Moved]) -> None:
        """What each of these sessions has moved."""

    def usage(self) -> dict[str, Moved]: ...

    def keep_audit_head(self, head: AuditHead) -> None: ...

    def audit_head(self) -> AuditHead | None: ...

    def close(self) -> None: ...

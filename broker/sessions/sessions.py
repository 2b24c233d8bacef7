"""The sessions this broker knows: who they are, how long they last, and what to cut at their end.

Time is the boot clock, which no change of the wall clock can move. While the store is awaited
anything else may happen, an end above all: what is looked at before it is looked at again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from attrs import define, evolve, field
from twisted.internet.defer import Deferred

from broker.exchange.denials import DenialLog
from broker.sessions.egress_use import EgressUse
from broker.sessions.running import Running
from broker.sessions.session_limits import Budget
from broker.sessions.store.interface import (
    NOTHING,
    Contents,
    Moved,
    Over,
    State,
    Store,
    StoredSession,
    StoreFailed,
)
from broker.upstream.limiter import RepositoryBreakers
from gitmoat.limits.brake import DenialBrake
from gitmoat.limits.buckets import TokenBucket
from gitmoat.limits.quota import ByteQuota
from netpolicy.format.document import PolicyError, policy_from_mapping, policy_to_mapping
from netpolicy.policy import Policy

REPORTS_PER_MINUTE = 60
# How long the key of an ended session is still told that it has ended.
_REMEMBER = 24 * 3600.0

# And for how long a sandbox is told so; longer than any grant can last.
_REMEMBER_OVER = 90 * 86400

RELEASED = "released"
UNRECORDED = "unrecorded"
QUOTA = "quota"
EXPIRED = "expired"
IDLE = "idle"
_GIVEN_BACK = (RELEASED, UNRECORDED)
# The owner can let a sandbox go on after these, and after no other end of its session.
_RENEWABLE = (EXPIRED, IDLE)
_RENEWED = "renewed"


@define(eq=False)
class Session:
    stored: StoredSession
    policy: Policy
    budget: Budget
    bytes: ByteQuota
    used: float
    ended: float | None = None
    requests: int = 0
    reports: TokenBucket = field(factory=lambda: TokenBucket.per_minute(REPORTS_PER_MINUTE))
    denials: DenialLog = field(factory=DenialLog)
    breakers: RepositoryBreakers = field(factory=RepositoryBreakers)
    brake: DenialBrake = field(init=False)
    egress: EgressUse = field(init=False)
    running: Running = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.running = Running(self.id)
        self.egress = EgressUse(self.policy.limits)
        self.brake = DenialBrake(self.policy.limits.free_refusals)

    @property
    def id(self) -> str:
        return self.stored.id

    @property
    def state(self) -> State:
        return self.stored.state

    @property
    def owner(self) -> tuple[str, str]:
        """Whose use of shared things it is: a sidecar that dies brings no new share of them."""
        return self.stored.host, self.stored.sandbox

    @property
    def moved(self) -> Moved:
        return Moved(self.bytes.used, self.egress.bytes.used)

    @moved.setter
    def moved(self, moved: Moved) -> None:
        self.bytes.used, self.egress.bytes.used = moved.git, moved.egress

    def is_of(self, host: str, sandbox: str) -> bool:
        return self.owner == (host, sandbox)

    def is_called(self, text: str) -> bool:
        return text in (self.id, self.stored.sandbox, self.stored.name)

    def overdue(self, now: float) -> str | None:
        """Why this session is over by the clock, or None."""
        if now >= self.stored.deadline:
            return EXPIRED
        if not self.bytes.left:
            return QUOTA
        if now - self.used >= self.policy.session.idle and not self.running.busy:
            return IDLE
        return None


def is_renewable(reason: str) -> bool:
    """Whether the owner can let a sandbox go on whose session ended so."""
    return reason in _RENEWABLE


def open_session(stored: StoredSession, now: float) -> Session:
    """A session from its stored form; PolicyError when the scope is not a policy."""
    policy = policy_from_mapping(json.loads(stored.scope))
    limits = policy.limits
    budget = Budget(limits.git_requests_per_minute, limits.git_concurrency)
    denials = DenialLog(limits.git_requests_per_minute)
    bytes_left = ByteQuota(limits.session_max)
    return Session(stored, policy, budget, bytes_left, used=now, denials=denials)


def _reopen(stored: StoredSession, boot: str, now: float) -> Session | None:
    if stored.broker_boot != boot:
        return None
    try:
        session = open_session(stored, now)
    except PolicyError:  # written by another version of us; the host has to grant again
        return None
    session.ended = now if stored.state is State.ENDED else None
    return session


@define(eq=False)
class Sessions:
    _store: Store
    _now: Callable[[], float]
    _wall: Callable[[], int]
    _over: dict[tuple[str, str], Over] = field(factory=dict, init=False)
    _by_id: dict[str, Session] = field(factory=dict, init=False)
    _living: dict[str, Session] = field(factory=dict, init=False)
    _by_key: dict[bytes, Session] = field(factory=dict, init=False)
    _unsaved: dict[str, tuple[str, int | None]] = field(factory=dict, init=False)
    _void: list[str] = field(factory=list, init=False)  # rows of another boot or version

    def load(self, contents: Contents, boot: str) -> None:
        """Takes up what the store has; after a reboot nothing is valid until granted again.

        What ended for good has ended for good: a reboot brings no revoked sandbox back.
        """
        now = self._now()
        self._over = dict(contents.over)
        for stored in contents.sessions:
            session = _reopen(stored, boot, now)
            if session is None:
                self._void.append(stored.id)
            else:
                self._remember(session)
        for name, moved in contents.usage.items():
            if (known := self._by_id.get(name)) is not None:
                known.moved = moved

    async def register(self, stored: StoredSession) -> Session:
        """Durable, and closed until activated; CounterSeen or PolicyError change nothing."""
        session = open_session(stored, self._now())
        await self._forget_void()
        await self._store.admit(stored)
        session.moved = self._moved(stored.host, stored.sandbox)
        self._remember(session)
        return session

    def _moved(self, host: str, sandbox: str) -> Moved:
        """What the sandbox's sessions have moved: neither a sidecar that dies nor a renewal brings
        a new quota."""
        own = [one.moved for one in self._by_id.values() if one.is_of(host, sandbox)]
        own += [over.moved for over in [self._over.get((host, sandbox))] if over is not None]
        git, egress = (one.git for one in own), (one.egress for one in own)
        return Moved(max(git, default=0), max(egress, default=0))

    async def keep_usage(self) -> None:
        """So that a restart of the broker does not forget it."""
        await self._keep(self.living())

    async def _keep(self, sessions: Iterable[Session]) -> None:
        moved = {one.id: one.moved for one in sessions if one.moved != Moved()}
        if moved:
            await self._store.keep_usage(moved)

    def _remember(self, session: Session) -> None:
        self._by_id[session.id] = session
        if session.state is not State.ENDED:
            self._living[session.id] = session
        self._by_key[session.stored.key] = session

    async def activate(self, session: Session, pid: int, netns: int, cgroup: int | None) -> None:
        await self._store.activate(session.id, pid, netns, cgroup)
        if session.state is State.ENDED:
            return
        session.used = self._now()
        session.stored = evolve(
            session.stored, state=State.ACTIVE, pid=pid, netns=netns, cgroup=cgroup
        )

    def end(self, session: Session, reason: str) -> Deferred[None]:
        """Ends it for ever: no new request from now on, then durably, then the live streams."""
        session.stored = evolve(session.stored, state=State.ENDED, reason=reason)
        self._living.pop(session.id, None)
        session.ended = self._now()
        over = None if reason in _GIVEN_BACK else self._wall()
        if over is not None:
            self._over[session.owner] = Over(reason, session.moved)
        self._unsaved[session.id] = (reason, over)
        return Deferred.fromCoroutine(self._save_and_cut(session))

    async def _save_and_cut(self, session: Session) -> None:
        try:
            await self._save_end(session.id)
        finally:
            session.running.end("S101")

    async def save_ends(self) -> None:
        """What could not be written stays ended, and is written as soon as it can be.

        Without that a broker that starts again would know nothing of the end. Each is tried; the
        last error is raised.
        """
        failed: StoreFailed | None = None
        for name in list(self._unsaved):
            try:
                await self._save_end(name)
            except StoreFailed as error:
                failed = error
        if failed is not None:
            raise failed

    async def _save_end(self, name: str) -> None:
        """With what its session moved."""
        if name not in self._unsaved:
            return
        reason, over = self._unsaved[name]
        session = self._by_id.get(name)
        await self._store.end(name, reason, over, NOTHING if session is None else session.moved)
        await self._keep([] if session is None else [session])
        self._unsaved.pop(name, None)

    async def rescope(self, session: Session, counter: int, policy: Policy) -> int:
        """Another policy, durably; then cut what it does not allow, and say how many.

        That goes for whatever runs; the session's times stay as they are.
        """
        scope = json.dumps(policy_to_mapping(policy))
        await self._store.rescope(session.stored, counter, scope)
        session.stored = evolve(session.stored, scope=scope)
        session.policy = policy
        session.egress.limit(policy.limits)
        session.budget.limit(policy.limits.git_requests_per_minute, policy.limits.git_concurrency)
        session.bytes.limit = policy.limits.session_max
        session.brake.free = policy.limits.free_refusals
        session.denials.limit(policy.limits.git_requests_per_minute)
        return session.running.rescope(policy)

    async def extend(self, session: Session, seconds: int) -> None:
        """Ends so many seconds from now, never earlier than before; `max_ttl` counts from now."""
        now = self._now()
        latest = max(session.stored.latest, now + session.policy.session.max_ttl)
        deadline = max(session.stored.deadline, min(now + seconds, latest))
        await self._store.extend(session.id, deadline, latest)
        session.stored = evolve(session.stored, deadline=deadline, latest=latest)
        session.used = now

    async def renew(self, host: str, sandbox: str) -> None:
        """A sandbox may be granted another session after the time or the silence of its last."""
        over = self._over.get((host, sandbox))
        if over is None:
            return
        for session in [one for one in self._by_id.values() if one.is_of(host, sandbox)]:
            await self._save_end(session.id)  # written later it would undo this
        await self._store.renew(host, sandbox, over.reason, _RENEWED)
        if self._over.get((host, sandbox)) is over:
            self._over[host, sandbox] = evolve(over, reason=_RENEWED)

    def overdue(self) -> list[tuple[Session, str]]:
        now = self._now()
        found = ((one, one.overdue(now)) for one in self.living())
        return [(one, reason) for one, reason in found if reason is not None]

    def over_for_good(self, host: str, sandbox: str) -> str | None:
        """Why a sandbox gets no further session: its last one was not given back by its host.

        A sidecar that is killed gets a new key and grant; without this, killing it would undo
        a revocation.
        """
        over = self._over.get((host, sandbox))
        return None if over is None or over.reason == _RENEWED else over.reason

    def of_sandbox(self, host: str, sandbox: str) -> list[Session]:
        """Those that live."""
        return [one for one in self.living() if one.is_of(host, sandbox)]

    async def forget_old(self) -> None:
        """Not before the granted time is over: until then the end must be remembered."""
        await self._store.forget_over(self._wall() - _REMEMBER_OVER)
        await self._forget_void()
        limit = self._now() - _REMEMBER
        old = [one for one in self._by_id.values() if one.ended is not None and one.ended < limit]
        for session in [one for one in old if one.stored.deadline < self._now()]:
            await self._store.forget(session.id)
            del self._by_id[session.id]
            del self._by_key[session.stored.key]

    async def _forget_void(self) -> None:
        """Before their keys are granted again."""
        while self._void:
            name = self._void[-1]
            await self._store.forget(name)
            if name in self._void:
                self._void.remove(name)

    def by_key(self, key: bytes) -> Session | None:
        return self._by_key.get(key)

    def by_id(self, name: str) -> Session | None:
        return self._by_id.get(name)

    def living(self) -> list[Session]:
        return list(self._living.values())

    def cut_disallowed(self) -> None:
        """What is a git server has changed: such a host is no other host any more."""
        for one in self.living():
            one.running.rescope(one.policy)

    def under_way(self) -> set[tuple[str, int]]:
        """Every git operation that has begun and not ended."""
        return {(one.id, number) for one in self._living.values() for number in one.running.awaited}

    def everyone(self) -> Iterable[Session]:
        return self._by_id.values()

    def named(self, text: str) -> list[Session]:
        """The living sessions that this id, sandbox id or sandbox name means."""
        return [one for one in self.living() if one.is_called(text)]

    def ended(self, text: str) -> list[Session]:
        """Those of this name that are over and not forgotten, the latest last."""
        return [
            one for one in self._by_id.values() if one.ended is not None and one.is_called(text)
        ]

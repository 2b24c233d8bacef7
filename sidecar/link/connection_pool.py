"""Which broker connection serves which request, and when another one is asked for.

Knows links only by what they tell it (opened, lost) and by `close`; opens nothing itself.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Generic, Protocol, TypeVar

from attrs import define, field
from twisted.internet.defer import Deferred, succeed

from gitmoat.net.timing import Timer, cancel
from sidecar.loop import Clock

IDLE_LINKS = 2  # kept open for the next requests
ACQUIRE_TIMEOUT = 8.0  # the client has its 502 before 10 s
DIAL_TIMEOUT = 10.0
FIRST_DELAY = 0.25
LONGEST_DELAY = 15.0
DEMAND_DELAY = 1.0
# A broker that does not know our key lets a TLS 1.3 handshake finish and closes only then.
HANDSHAKE_PROVEN = 5.0
# Before a second try: when a broker dies all its links end, and the pool hears of the others' ends
# meanwhile.
RETRY_DELAY = 0.05


class BrokerUnreachable(Exception):
    """No connection to the broker could be had in time."""


class Link(Protocol):
    """One connection. It limits its own handshake in time, and is `lost` in the end."""

    @property
    def idle(self) -> bool: ...

    def close(self) -> None: ...


L = TypeVar("L", bound=Link)


class Share(Enum):
    """Whose request it is. Untrusted ones never take the last links from the helper's."""

    TRUSTED = "trusted"
    UNTRUSTED = "untrusted"
    EGRESS = "egress"

    __hash__ = object.__hash__  # Enum's own is written in Python


class Proof(Enum):
    """What an exchange has shown of the broker."""

    ANSWERED = "it answered"
    FAILED = "it did not"
    NONE = "nobody waited for its answer"


@define(eq=False)
class _Member:
    """One link's place in the pool: `share` while busy, `opened` once its handshake is done."""

    opened: float | None = None
    share: Share | None = None
    proof: Proof = Proof.FAILED


@define(eq=False)
class _Waiter(Generic[L]):
    share: Share
    answer: Deferred[L]
    timer: Timer | None = None


def full_jitter() -> float:
    """Half to whole: sidecars that lost one broker together do not come back together."""
    return 0.5 + secrets.randbelow(501) / 1000


@define(eq=False)
class ConnectionPool(Generic[L]):
    """`dial` asks hostd for one connection and says whether it could ask."""

    _clock: Clock
    _dial: Callable[[], bool]
    _cap: int
    _jitter: Callable[[], float] = full_jitter
    _egress: int = 0  # how many of them tunnels and requests to other hosts may hold
    _most: dict[Share, int] = field(init=False)
    _members: dict[L, _Member] = field(factory=dict, init=False)
    _idle: list[L] = field(factory=list, init=False)
    _waiters: deque[_Waiter[L]] = field(factory=deque, init=False)
    _busy: dict[Share, int] = field(factory=lambda: dict.fromkeys(Share, 0), init=False)
    _wanted: dict[Share, int] = field(factory=lambda: dict.fromkeys(Share, 0), init=False)
    _dialling: deque[Timer] = field(factory=deque, init=False)
    _failures: int = field(default=0, init=False)
    _failed_at: float = field(default=0.0, init=False)
    _not_before: float = field(default=0.0, init=False)
    _retry: Timer | None = field(default=None, init=False)
    _running: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        git = self._cap - self._egress
        self._most = {
            Share.TRUSTED: self._cap,
            Share.UNTRUSTED: max(1, git - max(1, git // 4)),
            Share.EGRESS: self._egress,
        }

    def start(self) -> None:
        """Begin to keep warm connections."""
        self._running = True
        self._plan()

    def close(self) -> None:
        """Close every link, fail every waiter, ask for nothing more."""
        self._running = False
        cancel(self._retry)
        self._forget_dials()
        for waiter in list(self._waiters):
            self._give_up(waiter)
        for link in list(self._members):
            link.close()

    # ---- for requests

    def full(self, share: Share) -> bool:
        """Whether all links that this share may hold are in use, or waited for."""
        return self._busy[share] + self._wanted[share] >= self._most[share]

    def acquire(self, share: Share) -> Deferred[L]:
        """A link to use for one exchange; cancel the Deferred when it is not wanted any more."""
        link = None if self._waiters else self._free(share)
        if link is not None:
            self._plan()
            return succeed(link)
        waiter: _Waiter[L] = _Waiter(share, Deferred(lambda _: self._withdraw(waiter)))
        self._waiters.append(waiter)
        self._wanted[share] += 1
        # A request waits, so a long back-off is cut short.
        self._not_before = min(self._not_before, self._failed_at + DEMAND_DELAY)
        self._serve()
        if waiter in self._waiters:
            waiter.timer = self._clock.callLater(ACQUIRE_TIMEOUT, self._give_up, waiter)
        return waiter.answer

    def release(self, link: L, proof: Proof) -> None:
        """The exchange on this link is over; it is used again if it came out of it clean."""
        member = self._members.get(link)
        if member is None:
            return
        self._set_free(member)
        self._prove(member, proof)
        if not link.idle or not self._running:
            link.close()
            return
        self._idle.append(link)
        self._serve()

    def served(self, link: L) -> None:
        """The broker answered on this link, which is a tunnel from now on and is not released."""
        member = self._members.get(link)
        if member is not None:
            self._prove(member, Proof.ANSWERED)

    # ---- for links

    def add(self, link: L) -> bool:
        """A connection arrived and shakes hands; False when there is no room for it."""
        if self._dialling:
            cancel(self._dialling.popleft())
        if not self._running or len(self._members) >= self._cap:
            self._plan()
            return False
        self._members[link] = _Member()
        return True

    def opened(self, link: L) -> None:
        member = self._members.get(link)
        if member is None or member.opened is not None:
            return
        member.opened = self._clock.seconds()
        self._idle.append(link)
        self._serve()

    def lost(self, link: L) -> None:
        member = self._members.pop(link, None)
        if member is None:
            return
        if link in self._idle:
            self._idle.remove(link)
        self._set_free(member)
        if self._was_failure(member):
            self._failed()
        elif member.proof is not Proof.NONE:
            self._recovered()
        self._serve()

    # ---- for the control socket

    def dial_failed(self) -> None:
        if self._dialling:
            cancel(self._dialling.popleft())
            self._failed()
        self._plan()

    def control_changed(self) -> None:
        """hostd came or went: what it was asked before is forgotten, what is needed is asked."""
        self._forget_dials()
        self._plan()

    # ---- inside

    def _was_failure(self, member: _Member) -> bool:
        if member.proof is not Proof.FAILED:
            return False
        return member.opened is None or self._clock.seconds() - member.opened < HANDSHAKE_PROVEN

    def _prove(self, member: _Member, proof: Proof) -> None:
        if proof is Proof.ANSWERED:
            self._recovered()
        if member.proof is not Proof.ANSWERED:
            member.proof = proof

    def _failed(self) -> None:
        self._failed_at = self._clock.seconds()
        # While somebody waits, a broker that has come back must be found before they give up.
        longest = DEMAND_DELAY if self._waiters else LONGEST_DELAY
        delay = min(longest, FIRST_DELAY * 2 ** min(self._failures, 10))
        self._failures += 1
        self._not_before = self._failed_at + delay * self._jitter()

    def _recovered(self) -> None:
        self._failures = 0
        self._not_before = 0.0

    def _serve(self) -> None:
        while self._waiters and self._idle and (waiter := self._next_waiter()) is not None:
            link = self._free(waiter.share)
            if link is not None:
                self._dismiss(waiter)
                waiter.answer.callback(link)
        self._plan()

    def _free(self, share: Share) -> L | None:
        while self._idle and self._room(share) > 0:
            link = self._idle.pop()
            if link.idle:
                self._members[link].share = share
                self._busy[share] += 1
                return link
            link.close()  # it is closing: `lost` follows
        return None

    def _next_waiter(self) -> _Waiter[L] | None:
        full: set[Share] = set()
        for waiter in self._waiters:
            if waiter.share not in full:
                if self._room(waiter.share) > 0:
                    return waiter
                full.add(waiter.share)
        return None

    def _room(self, share: Share) -> int:
        """How many more links requests of this kind may take."""
        return max(0, self._most[share] - self._busy[share])

    def _set_free(self, member: _Member) -> None:
        if member.share is not None:
            self._busy[member.share] -= 1
            member.share = None

    def _plan(self) -> None:
        """Ask for as many connections as are wanted now, or set the time to look again."""
        cancel(self._retry)
        self._retry = None
        if not self._waiters and len(self._idle) >= IDLE_LINKS:
            return
        count = self._lacking()
        if count <= 0 or not self._running:
            return
        delay = self._not_before - self._clock.seconds()
        if delay > 0:
            self._retry = self._clock.callLater(delay, self._plan)
            return
        for _ in range(count):
            if not self._dial():
                return
            self._dialling.append(self._clock.callLater(DIAL_TIMEOUT, self._dial_timed_out))

    def _lacking(self) -> int:
        room = self._cap - len(self._members) - len(self._dialling)
        if room <= 0:
            return 0
        shaking = sum(each.opened is None for each in self._members.values())
        coming = shaking + len(self._dialling)
        lacking = min(room, self._admissible() + IDLE_LINKS - len(self._idle) - coming)
        # One at a time until one has proved itself.
        return min(lacking, 1 - coming) if self._failures else lacking

    def _admissible(self) -> int:
        """How many waiters a new link could serve."""
        if not self._waiters:
            return 0
        return sum(min(count, self._room(share)) for share, count in self._wanted.items())

    def _dial_timed_out(self) -> None:
        self._dialling.popleft()
        self._failed()
        self._plan()

    def _forget_dials(self) -> None:
        for timer in self._dialling:
            cancel(timer)
        self._dialling.clear()

    def _withdraw(self, waiter: _Waiter[L]) -> None:
        self._dismiss(waiter)
        self._plan()

    def _dismiss(self, waiter: _Waiter[L]) -> None:
        cancel(waiter.timer)
        if waiter in self._waiters:
            self._waiters.remove(waiter)
            self._wanted[waiter.share] -= 1

    def _give_up(self, waiter: _Waiter[L]) -> None:
        self._dismiss(waiter)
        waiter.answer.errback(BrokerUnreachable("no connection to the broker in time"))
        self._plan()

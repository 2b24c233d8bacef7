"""Asks for a thing once at a time, and keeps the answer while it is good."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from attrs import define, field, frozen
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from broker.credentials.providers.credential import Credential
from broker.errors import Unavailable
from gitmoat.limits.buckets import KeyedBuckets

_MOST = 1024
# An upstream's 401 may be about a repository that somebody chose; others use the credential too.
# So many times it is asked for anew at once, then every 30 s.
DROPS = 3
_DROP_RATE = 1 / 30


@frozen
class Fresh:
    """A credential, and for how many seconds it may be given out again."""

    credential: Credential
    seconds: float


@frozen
class _Kept:
    credential: Credential
    until: float


@frozen
class _Failed:
    why: Unavailable
    until: float


Waiting = list[Deferred[Credential]]


@define(eq=False)
class Cache:
    """One question at a time for each key: others who ask meanwhile wait for the same answer.

    A failure is told to all who waited, and for `_failure_seconds` to those who ask later. 0 is for
    answers that depend on the session, whose failure says nothing to another.
    """

    _now: Callable[[], float]
    _failure_seconds: float = 0.0
    _kept: dict[Hashable, _Kept] = field(factory=dict, init=False)
    _asking: dict[Hashable, Waiting] = field(factory=dict, init=False)
    _failures: dict[Hashable, _Failed] = field(factory=dict, init=False)
    _drops: KeyedBuckets = field(factory=lambda: KeyedBuckets(_DROP_RATE, DROPS), init=False)

    def get(self, key: Hashable, ask: Callable[[], Deferred[Fresh]]) -> Deferred[Credential]:
        waiter: Deferred[Credential] = Deferred(lambda gone: self._leave(key, gone))
        kept = self._kept.get(key)
        if kept is not None and self._now() < kept.until:
            waiter.callback(kept.credential)
            return waiter
        failed = self._failures.get(key)
        if failed is not None and self._now() < failed.until:
            waiter.errback(failed.why)
            return waiter
        if key in self._asking:
            self._asking[key].append(waiter)
            return waiter
        self._asking[key] = [waiter]
        ask().addCallbacks(
            lambda fresh: self._answered(fresh, key), lambda failure: self._failed(failure, key)
        )
        return waiter

    def drop(self, key: Hashable, credential: Credential) -> bool:
        """Only this one: another may have been asked for since. Whether there may be another."""
        kept = self._kept.get(key)
        if kept is None or kept.credential is not credential:
            return True
        if self._drops.take(key, self._now()):
            return False
        del self._kept[key]
        return True

    def _leave(self, key: Hashable, gone: Deferred[Credential]) -> None:
        """One who waited has gone; the question goes on for the others, and for the next."""
        waiting = self._asking.get(key, [])
        if gone in waiting:
            waiting.remove(gone)

    def _answered(self, fresh: Fresh, key: Hashable) -> None:
        self._make_room()
        self._failures.pop(key, None)
        self._kept[key] = _Kept(fresh.credential, self._now() + fresh.seconds)
        for waiter in self._asking.pop(key):
            waiter.callback(fresh.credential)

    def _failed(self, failure: Failure, key: Hashable) -> None:
        if len(self._failures) >= _MOST:
            self._failures.clear()
        if isinstance(failure.value, Unavailable):
            self._failures[key] = _Failed(failure.value, self._now() + self._failure_seconds)
        for waiter in self._asking.pop(key):
            waiter.errback(failure)

    def _make_room(self) -> None:
        if len(self._kept) >= _MOST:
            now = self._now()
            self._kept = {key: one for key, one in self._kept.items() if now < one.until}
        while len(self._kept) >= _MOST:
            del self._kept[next(iter(self._kept))]

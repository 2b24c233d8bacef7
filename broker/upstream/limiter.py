"""How much we ask of an upstream: one budget per credential, and none while it asks for rest.

Pure. What counts is what the upstream itself said or failed to say; a refusal of ours, a client
that left or a credential that could not be read changes nothing here. What a sandbox can bring
about (an error of a repository, a connection that is dropped for what was sent on it) is counted
for that sandbox alone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from email.utils import parsedate_to_datetime
from math import ceil

from attrs import define, field, frozen

from gitmoat.limits.shares import SharedBucket
from gitmoat.wire.http.heads import ResponseHead

LONGEST = 3600
_DEFAULT_REST = 30
_FAILURES = 5
MOST_BREAKERS = 64
_FIRST_PAUSE = 2.0
_LONGEST_PAUSE = 30.0
_LEFT = (b"x-ratelimit-remaining", b"ratelimit-remaining")
_RESET = (b"x-ratelimit-reset", b"ratelimit-reset")
# Seconds since 1970 are larger than this, seconds to wait are not.
_EPOCH = 100_000_000


@frozen
class Rest:
    """Do not ask now: `code` says why, `seconds` when to come back."""

    code: str
    seconds: int


@define(eq=False)
class CredentialBudget:
    """One for each credential at each upstream, whichever sandboxes use it.

    A server that says how many requests are left speaks of the credential: all rest. One that
    only says "not now" may mean the one who asked: the others rest when a second is told so too.
    """

    per_minute: int
    _bucket: SharedBucket = field(init=False)
    _until: float = field(init=False, default=0.0)
    _told: dict[Hashable, float] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        self._bucket = SharedBucket(self.per_minute)

    def take(self, asker: Hashable, now: float) -> Rest | None:
        """None when one request may go up; it is counted."""
        wait = self.resting(now, asker) or ceil(self._bucket.take(asker, now))
        return Rest("U108", wait) if wait else None

    def resting(self, now: float, asker: Hashable = None) -> int:
        """Seconds for which the upstream wants none of the asker, or of anybody; 0 when it does."""
        return max(0, ceil(max(self._until, self._told.get(asker, 0.0)) - now))

    def heard(self, asker: Hashable, head: ResponseHead, now: float, wall: float) -> None:
        about_us = head.status != 503 or _none_left(head)
        seconds = asked_rest(head, wall) if about_us else 0
        if not seconds:
            return
        until = now + seconds
        others = [one for name, one in self._told.items() if name != asker and one > now]
        if others or _none_left(head):
            self._until = max(self._until, until)
        self._told = {name: one for name, one in self._told.items() if one > now}
        self._told[asker] = max(self._told.get(asker, 0.0), until)


@define(eq=False)
class Breaker:
    """After some failures in a row, what failed is left alone for a while.

    Then every asker may find out with one request; while that is on its way its other requests are
    refused at once. An asker that breaks off on the way does not keep others from asking.
    """

    _failures: int = field(init=False, default=0)
    _code: str = field(init=False, default="U101")
    _until: float = field(init=False, default=0.0)
    _asked: float = field(init=False, default=0.0)
    _tried: dict[Hashable, float] = field(init=False, factory=dict)

    def rest(self, now: float, asker: Hashable = None) -> Rest | None:
        if left := self.left(now, asker):
            return Rest(self._code, left)
        if self.open:
            self._tried[asker] = now + self._pause
        return None

    def left(self, now: float, asker: Hashable = None) -> int:
        """Seconds for which it is left alone; 0 when it may be asked."""
        until = self._asked
        if self.open:
            until = max(until, self._until, self._tried.get(asker, 0.0))
        return max(0, ceil(until - now))

    def failed(self, now: float, code: str = "U101", rest: int = 0) -> None:
        """`rest`: for how many seconds it has asked to be left alone itself."""
        self._failures += 1
        self._code = code
        self._until, self._asked = now + self._pause, now + rest
        self._tried.clear()

    def worked(self) -> None:
        self._failures = 0
        self._asked = 0.0
        self._tried.clear()

    @property
    def open(self) -> bool:
        return self._failures >= _FAILURES

    @property
    def _pause(self) -> float:
        beyond = min(10, max(0, self._failures - _FAILURES))
        return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0**beyond)


@define(eq=False)
class RepositoryBreakers:
    """The repositories that fail for one session: what it brings about is held against it alone.

    Each has an entry from its first failure until it works; of too many the oldest is forgotten.
    """

    _failing: OrderedDict[Hashable, Breaker] = field(init=False, factory=OrderedDict)

    def __len__(self) -> int:
        return len(self._failing)

    def rest(self, key: Hashable, now: float) -> Rest | None:
        breaker = self._failing.get(key)
        return None if breaker is None else breaker.rest(now)

    def left(self, key: Hashable, now: float) -> int:
        breaker = self._failing.get(key)
        return 0 if breaker is None else breaker.left(now)

    def failed(self, key: Hashable, now: float, code: str, rest: int = 0) -> None:
        breaker = self._failing.setdefault(key, Breaker())
        breaker.failed(now, code, rest)
        self._failing.move_to_end(key)
        if len(self._failing) > MOST_BREAKERS:
            self._failing.popitem(last=False)

    def worked(self, key: Hashable) -> None:
        self._failing.pop(key, None)


def asks_for_rest(head: ResponseHead) -> bool:
    """Whether an answer that is no 200 says "too often": some servers write 403 for it."""
    if head.status == 429:
        return True
    return head.status == 403 and (_first(head, (b"retry-after",)) is not None or _none_left(head))


def asked_rest(head: ResponseHead, wall: float) -> int:
    """For how many seconds to ask nothing more; 0 for none. `wall` is seconds since 1970."""
    refused = head.status != 200 and (asks_for_rest(head) or head.status == 503)
    if not refused and not _none_left(head):
        return 0
    now = _date(_first(head, (b"date",))) or wall
    after = _seconds(_first(head, (b"retry-after",)), now) if refused else 0
    reset = _seconds(_first(head, _RESET), now) if _none_left(head) else 0
    seconds = after or reset
    if not seconds and asks_for_rest(head):
        seconds = _DEFAULT_REST
    return min(seconds, LONGEST)


def _none_left(head: ResponseHead) -> bool:
    return _first(head, _LEFT) == b"0"


def _first(head: ResponseHead, names: tuple[bytes, ...]) -> bytes | None:
    """The value of the first header of these names that is there exactly once."""
    told = [(key.lower(), value) for key, value in head.headers]
    for name in names:
        found = [value for key, value in told if key == name]
        if len(found) == 1:
            return found[0]
    return None


def _seconds(value: bytes | None, now: float) -> int:
    """A number of seconds, a time since 1970, or a date of HTTP; 0 for anything else."""
    if value is None:
        return 0
    if value.isdigit() and len(value) <= 12:
        number = int(value)
        return max(0, ceil(number - now)) if number > _EPOCH else number
    date = _date(value)
    return max(0, ceil(date - now)) if date is not None else 0


def _date(value: bytes | None) -> float | None:
    if value is None or len(value) > 40:
        return None
    try:
        return parsedate_to_datetime(value.decode("ascii")).timestamp()
    except (ValueError, OverflowError):
        return None

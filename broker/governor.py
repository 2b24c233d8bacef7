"""How much we ask of an upstream: one budget per credential, and none while it asks for rest.

Pure. What counts is what the upstream itself said or failed to say; a refusal of ours, a client
that left or a credential that could not be read changes nothing here.
"""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from math import ceil

from attrs import define, field, frozen

from gitwire.http import ResponseHead
from limits.buckets import TokenBucket

LONGEST = 3600
_DEFAULT_REST = 30
_FAILURES = 5
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
    """One for each upstream credential, whichever sandboxes use it."""

    per_minute: int
    _bucket: TokenBucket = field(init=False)
    _until: float = field(init=False, default=0.0)

    def __attrs_post_init__(self) -> None:
        self._bucket = TokenBucket.per_minute(self.per_minute)

    def take(self, now: float) -> Rest | None:
        """None when one request may go up; it is counted."""
        wait = self.resting(now) or ceil(self._bucket.take(now))
        return Rest("U108", wait) if wait else None

    def resting(self, now: float) -> int:
        """Seconds for which the upstream wants none; 0 when it does."""
        return max(0, ceil(self._until - now))

    def heard(self, head: ResponseHead, now: float, wall: float) -> None:
        seconds = asked_rest(head, wall)
        if seconds:
            self._until = max(self._until, now + seconds)


@define(eq=False)
class Breaker:
    """One for each upstream: after some failures in a row it is left alone for a while.

    Then one request finds out; while it is on its way the others still get a quick answer.
    """

    _failures: int = field(init=False, default=0)
    _until: float = field(init=False, default=0.0)

    def rest(self, now: float) -> Rest | None:
        if self._failures < _FAILURES:
            return None
        if now < self._until:
            return Rest("U101", max(1, ceil(self._until - now)))
        self._pause(now)
        return None

    def failed(self, now: float) -> None:
        self._failures += 1
        self._pause(now)

    def worked(self) -> None:
        self._failures = 0

    @property
    def open(self) -> bool:
        return self._failures >= _FAILURES

    def _pause(self, now: float) -> None:
        beyond = min(10, max(0, self._failures - _FAILURES))
        self._until = now + min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**beyond)


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

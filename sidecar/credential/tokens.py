"""Request tokens: what the helper gets instead of a credential. One repository, minutes, memory."""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict, deque
from collections.abc import Callable

from attrs import frozen

LIFETIME = 600.0
USERNAME = "gitmoat"
_TOKEN_OCTETS = 24
# The helper asks once per git operation; the bounds only matter when something asks in a loop.
_PER_REPOSITORY = 8
_REPOSITORIES = 128


@frozen
class ScopedRepository:
    """A repository as the policy names it: two spellings of one repository are equal here."""

    upstream: str
    path: str


def scoped(upstream: str, path: str, fold: bool) -> ScopedRepository:
    return ScopedRepository(upstream, path.lower() if fold else path)


@frozen(repr=False, eq=False)
class _Live:
    text: bytes
    ends: float


class Tokens:
    """The live tokens of one session; the oldest go first when a bound is reached."""

    def __init__(
        self,
        now: Callable[[], float],
        random_text: Callable[[int], str] = secrets.token_urlsafe,
    ) -> None:
        self._now = now
        self._random_text = random_text
        self._live: OrderedDict[ScopedRepository, deque[_Live]] = OrderedDict()

    def issue(self, repository: ScopedRepository) -> str:
        text = self._random_text(_TOKEN_OCTETS)
        kept = self._live.setdefault(repository, deque(maxlen=_PER_REPOSITORY))
        kept.append(_Live(text.encode("ascii"), self._now() + LIFETIME))
        self._live.move_to_end(repository)
        if len(self._live) > _REPOSITORIES:
            self._live.popitem(last=False)
        return text

    def erase(self, repository: ScopedRepository) -> None:
        self._live.pop(repository, None)

    def accepts(self, repository: ScopedRepository, presented: bytes) -> bool:
        self._forget_ended(repository)
        found = False
        # Every live token is compared, so that the time taken does not tell which one was near.
        for live in self._live.get(repository, ()):
            found |= hmac.compare_digest(live.text, presented)
        return found

    def _forget_ended(self, repository: ScopedRepository) -> None:
        kept = self._live.get(repository)
        while kept and kept[0].ends <= self._now():
            kept.popleft()
        if kept is not None and not kept:
            del self._live[repository]

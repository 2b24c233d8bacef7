"""A store whose disk is full while the test says so: it writes neither ends nor use."""

from collections.abc import Mapping
from typing import Any

from broker.sessions.store.interface import NOTHING, Moved, Store, StoreUnavailable


class FullStore:
    def __init__(self, store: Store) -> None:
        self.store, self.full = store, True
        self.only: str | None = None  # the one session that cannot be written

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def end(
        self, session: str, reason: str, over: int | None = None, moved: Moved = NOTHING
    ) -> None:
        if self.only in (None, session):
            self._check()
        await self.store.end(session, reason, over, moved)

    async def keep_usage(self, moved: Mapping[str, Moved]) -> None:
        self._check()
        await self.store.keep_usage(moved)

    def _check(self) -> None:
        if self.full:
            raise StoreUnavailable("database or disk is full")

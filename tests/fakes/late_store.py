"""A store that answers when the test says so, as one at the other end of a network does."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from twisted.internet.defer import Deferred

from broker.sessions.store.interface import Store


class LateStore:
    """`asked` are the names of the calls that wait, in their order."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.asked: list[str] = []
        self._waiting: list[Deferred[None]] = []

    def __getattr__(self, name: str) -> Any:
        if name in ("load", "close"):
            return getattr(self.store, name)

        def late(*given: Any, **named: Any) -> Coroutine[Any, Any, Any]:
            return self._late(name, getattr(self.store, name), *given, **named)

        return late

    async def _late(self, name: str, call: Callable[..., Any], *given: Any, **named: Any) -> Any:
        turn: Deferred[None] = Deferred()
        self.asked.append(name)
        self._waiting.append(turn)
        await turn
        return await call(*given, **named)

    def answer(self, name: str = "", error: Exception | None = None) -> None:
        """The call that has waited longest, of this name if one is given."""
        at = self.asked.index(name) if name else 0
        self.asked.pop(at)
        turn = self._waiting.pop(at)
        if error is None:
            turn.callback(None)
        else:
            turn.errback(error)

    def answer_all(self) -> None:
        while self.asked:
            self.answer()

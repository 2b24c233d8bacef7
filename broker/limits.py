"""How much one session may ask for: requests a minute, and operations at the same time."""

from __future__ import annotations

from math import ceil

from attrs import define, field


@define(eq=False)
class Budget:
    """A bucket of request tokens that refills steadily, and a count of running operations."""

    per_minute: int
    concurrency: int
    _tokens: float = field(init=False)
    _filled: float | None = field(init=False, default=None)
    running: int = field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        self._tokens = float(self.per_minute)

    def enter(self, now: float) -> int:
        """0 when the operation may start (then `leave` must follow), else seconds to wait."""
        self._refill(now)
        if self._tokens < 1:
            return max(1, ceil((1 - self._tokens) * 60 / self.per_minute))
        if self.running >= self.concurrency:
            return 1
        self._tokens -= 1
        self.running += 1
        return 0

    def leave(self) -> None:
        self.running -= 1

    def _refill(self, now: float) -> None:
        # A clock that steps back must not make the bucket negative or stop it.
        passed = max(0.0, now - self._filled) if self._filled is not None else 0.0
        self._filled = now
        self._tokens = min(float(self.per_minute), self._tokens + passed * self.per_minute / 60)

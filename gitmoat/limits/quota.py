"""How much may pass in all, and how slowly."""

from __future__ import annotations

from attrs import define


@define(eq=False)
class ByteQuota:
    """A number of bytes that is used up once. `spend` is called for each piece that passes."""

    limit: int
    used: int = 0

    @property
    def left(self) -> int:
        return max(0, self.limit - self.used)

    def spend(self, count: int) -> bool:
        """Whether what has passed, these bytes included, is within the quota."""
        self.used += count
        return self.used <= self.limit


@define(eq=False)
class Pace:
    """Whether a stream keeps up a least rate. Asked now and then, not for each piece.

    `floor` is bytes a second, over the time since the last look. Time in which nobody waited
    for this stream is not held against it: then `look` is given `owed=False`.
    """

    floor: float
    _seen: int = 0
    _at: float | None = None

    def look(self, now: float, moved: int, owed: bool = True) -> bool:
        """False when `moved` bytes in all are too few. The first look only remembers."""
        since, before = self._at, self._seen
        self._at, self._seen = now, moved
        if since is None or now <= since or not owed:
            return True
        return moved - before >= self.floor * (now - since)

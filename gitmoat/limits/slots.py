"""How much may happen at a time: slots with a reserve, and a queue that serves askers in turn."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Mapping
from typing import Generic, TypeVar

from attrs import define, field

Item = TypeVar("Item")


@define(eq=False)
class Slots:
    """`total` at a time. `reserved` keeps some of them for those who have a name there.

    Whoever is not in `reserved` leaves all reserved slots free, so it can never use the last one.
    `each`, if given, is the most that one key may hold.
    """

    total: int
    reserved: Mapping[Hashable, int] = field(factory=dict)
    each: int | None = None
    used: int = field(default=0, init=False)
    _held: dict[Hashable, int] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        if sum(self.reserved.values()) >= self.total:
            raise ValueError("more slots are reserved than there are")

    def held(self, key: Hashable) -> int:
        return self._held.get(key, 0)

    def room(self, key: Hashable) -> bool:
        if not self.reserved and self.each is None:
            return self.used < self.total
        held = self._held.get(key, 0)
        if self.each is not None and held >= self.each:
            return False
        if held < self.reserved.get(key, 0):
            return self.used < self.total
        kept = 0
        for name, count in self.reserved.items():
            kept += max(0, count - self._held.get(name, 0))
        return self.used + kept < self.total

    def enter(self, key: Hashable) -> bool:
        """True when a slot was taken; then `leave` must follow."""
        if not self.room(key):
            return False
        self._held[key] = self._held.get(key, 0) + 1
        self.used += 1
        return True

    def leave(self, key: Hashable) -> None:
        held = self._held.pop(key, 0)
        if not held:
            raise ValueError("nobody of this name holds a slot")
        if held > 1:
            self._held[key] = held - 1
        self.used -= 1


@define(eq=False)
class FairQueue(Generic[Item]):
    """Waiting items of many askers: one of each in turn, first come first served within one.

    However many one asker has waiting, the next item of another is at most one round away.
    """

    each: int
    total: int
    _waiting: OrderedDict[Hashable, deque[Item]] = field(factory=OrderedDict, init=False)
    _count: int = field(default=0, init=False)

    def __len__(self) -> int:
        return self._count

    def put(self, asker: Hashable, item: Item) -> bool:
        """False when the asker, or everybody together, has too much waiting already."""
        own = self._waiting.get(asker)
        if self._count >= self.total or (own is not None and len(own) >= self.each):
            return False
        self._waiting.setdefault(asker, deque()).append(item)
        self._count += 1
        return True

    def take(self, admits: Callable[[Hashable], bool] = lambda asker: True) -> Item | None:
        """The next item in turn of an asker that is admitted now; its asker goes to the end."""
        for asker in self._waiting:
            if admits(asker):
                return self._pop(asker)
        return None

    def remove(self, asker: Hashable, item: Item) -> bool:
        own = self._waiting.get(asker)
        if own is None or item not in own:
            return False
        own.remove(item)
        self._count -= 1
        if not own:
            del self._waiting[asker]
        return True

    def _pop(self, asker: Hashable) -> Item:
        own = self._waiting.pop(asker)
        item = own.popleft()
        self._count -= 1
        if own:
            self._waiting[asker] = own
        return item

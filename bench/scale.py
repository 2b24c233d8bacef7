"""How much of everything a run does."""

from __future__ import annotations

from attrs import frozen


@frozen
class Scale:
    raw: int = 1 << 30  # bytes of a raw transfer
    large: int = 300  # MiB of the large pack
    push: int = 136  # MiB
    objects: int = 60000
    refs: int = 20000
    requests: int = 1000
    seconds: int = 4
    few: int = 3  # rounds of what takes long
    some: int = 5
    many: int = 9
    crowd: tuple[int, ...] = (1, 50, 100, 200)
    sessions: tuple[int, ...] = (50, 200, 1000)
    egress: int = 512  # MiB
    questions: int = 40000
    beside: int = 10  # operations in a row beside a busy neighbour


FULL = Scale()
QUICK = Scale(
    raw=256 << 20,
    large=64,
    push=32,
    objects=10000,
    refs=5000,
    requests=300,
    seconds=2,
    few=2,
    some=3,
    many=5,
    crowd=(1, 20),
    sessions=(50, 200),
    egress=128,
    questions=10000,
    beside=4,
)
# For CI: a slip by half shows, and a minute is enough.
SMOKE = Scale(raw=64 << 20, requests=400, seconds=2, few=2, some=3, many=3)

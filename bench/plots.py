"""Pictures of a run: bars for ways beside each other, and curves of what grows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from attrs import frozen

from bench.chains.way import DIRECT, IN_MEMORY, OURS
from bench.figures import Book, figure
from bench.table import number
from tools.svg import Picture

_WIDTH, _LEFT, _BAR, _GAP = 760, 190, 16, 14
_PLOT = (70, 40, 620, 200)  # left, top, width, height


@frozen
class Bars:
    """Rows relative to one way, as bars for each."""

    name: str
    title: str
    rows: tuple[str, ...]
    against: str


BARS = (
    Bars(
        "transfers",
        "Throughput of two hops, nginx = 1 (longer is better)",
        ("download", "upload"),
        "nginx",
    ),
    Bars(
        "cpu",
        "CPU seconds per GB of two hops, nginx = 1 (shorter is better)",
        ("download: CPU", "upload: CPU"),
        "nginx",
    ),
    Bars(
        "git",
        "git through two hops, directly = 1 (shorter is better)",
        ("ls-remote", "clone small", "clone large pack", "clone many refs", "clone many objects",
         "push"),
        DIRECT,
    ),
)  # fmt: skip
CURVES = {
    "density": ("MiB of a sidecar by number of sandboxes", r"N = (\d+): ([PU]SS) of a sidecar"),
    "starting": ("Seconds for one more sandbox, four at a time", r"N = (\d+): (one more) sandbox"),
    "sessions": ("Requests a second by number of sessions", r"(\d+) sessions: (requests)"),
}  # fmt: skip


def pictures(book: Book) -> dict[str, Picture]:
    """By name; those only whose rows were measured."""
    found = {bars.name: _bars(bars, book) for bars in BARS if _shown(bars, book)}
    for name, (title, pattern) in CURVES.items():
        lines = _series(book, pattern)
        if lines:
            found[name] = _curves(title, lines)
    return found


def _shown(bars: Bars, book: Book) -> dict[str, dict[str, float]]:
    """Row → way → ratio."""
    shown: dict[str, dict[str, float]] = {}
    for name in bars.rows:
        row = book.rows.get(name)
        for way in row.values if row else ():
            ratio = row.ratio(way, bars.against) if row else None
            if ratio is not None and way != IN_MEMORY:
                shown.setdefault(name, {})[way] = ratio
    return shown


def _bars(bars: Bars, book: Book) -> Picture:
    shown = _shown(bars, book)
    height = 50 + sum(len(ways) * _BAR + _GAP for ways in shown.values())
    made = Picture(_WIDTH, height, bars.title)
    made.text(16, 26, bars.title, "ink bold")
    longest = max(max(ways.values()) for ways in shown.values())
    scale = (_WIDTH - _LEFT - 150) / max(longest, 1.0)
    y = 44
    for name, ways in shown.items():
        made.text(16, y + 12, name, "ink small")
        for way, ratio in ways.items():
            length = max(2, round(ratio * scale))
            made.box(_LEFT, y, length, _BAR - 3, "trusted" if way == OURS else "box")
            look = "ink small bold" if way == OURS else "soft small"
            made.text(_LEFT + length + 6, y + 11, f"{way} {ratio:.2f}", look)
            y += _BAR
        y += _GAP
    return made


def _series(book: Book, pattern: str) -> dict[str, list[tuple[int, float]]]:
    """Lines of points out of rows whose names say the number."""
    found: dict[str, list[tuple[int, float]]] = {}
    for name, row in book.rows.items():
        match = re.fullmatch(pattern, name)
        if match and OURS in row.values:
            point = int(match[1]), figure(row.values[OURS]).median
            found.setdefault(match[2], []).append(point)
    return found


def _curves(title: str, lines: Mapping[str, Sequence[tuple[int, float]]]) -> Picture:
    left, top, width, height = _PLOT
    made = Picture(_WIDTH, top + height + 50, title)
    made.text(16, 26, title, "ink bold")
    most = max(x for points in lines.values() for x, _ in points)
    highest = max(y for points in lines.values() for _, y in points)
    bottom = top + height
    made.curve([(left, top), (left, bottom), (left + width, bottom)])
    for name, points in lines.items():
        placed = [
            (left + x * width / most, bottom - y * (height - 16) / highest) for x, y in points
        ]
        made.curve(placed)
        for (x, y), (count, value) in zip(placed, points, strict=True):
            made.dot(x, y)
            made.text(x, y - 8, number(value), "ink small", "middle")
            made.text(x, bottom + 18, str(count), "soft small", "middle")
        made.text(placed[-1][0] + 10, placed[-1][1] + 4, name, "ink small")
    return made

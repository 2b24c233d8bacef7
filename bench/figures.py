"""What was measured: series of values by row and by way, and what they come to."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

from attrs import define, field, frozen


@frozen
class Figure:
    """A median, and how far the middle half of the values lies apart, as a part of it."""

    median: float
    spread: float
    count: int


def figure(values: Sequence[float]) -> Figure:
    middle = statistics.median(values)
    if len(values) < 2 or not middle:
        return Figure(middle, 0.0, len(values))
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return Figure(middle, (high - low) / abs(middle), len(values))


def percentile(values: Sequence[float], part: float) -> float:
    """The smallest value that `part` of all are not above."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


@define
class Row:
    """One thing measured over several ways, each in turn."""

    unit: str
    values: dict[str, list[float]] = field(factory=dict)

    def figures(self) -> dict[str, Figure]:
        return {way: figure(values) for way, values in self.values.items()}

    def ratio(self, way: str, against: str) -> float | None:
        """Of medians; None unless both were measured."""
        if way not in self.values or against not in self.values:
            return None
        other = figure(self.values[against]).median
        return figure(self.values[way]).median / other if other else None


@define
class Book:
    rows: dict[str, Row] = field(factory=dict)

    def add(self, row: str, way: str, unit: str, value: float) -> None:
        self.rows.setdefault(row, Row(unit)).values.setdefault(way, []).append(value)

    def add_all(self, way: str, values: Mapping[str, tuple[float, str]]) -> None:
        """Values and units by row."""
        for row, (value, unit) in values.items():
            self.add(row, way, unit, value)

    def ways(self) -> list[str]:
        found: dict[str, None] = {}
        for row in self.rows.values():
            found.update(dict.fromkeys(row.values))
        return list(found)

    def as_json(self) -> dict[str, object]:
        return {
            name: {
                "unit": row.unit,
                "values": {way: [_short(x) for x in values] for way, values in row.values.items()},
            }
            for name, row in self.rows.items()
        }


def book_of(rows: Mapping[str, Mapping[str, object]]) -> Book:
    """The reverse of `as_json`."""
    book = Book()
    for name, row in rows.items():
        values = row["values"]
        assert isinstance(values, dict)
        made = Row(str(row["unit"]), {way: _floats(each) for way, each in values.items()})
        book.rows[name] = made
    return book


def _floats(values: Iterable[float]) -> list[float]:
    return [float(value) for value in values]


def _short(value: float) -> float:
    """Four digits: more would pretend to a precision that is not there."""
    return float(f"{value:.4g}")

"""A run as text: every row with every way, then what was aimed at."""

from __future__ import annotations

from collections.abc import Sequence

from bench.figures import Book
from bench.targets import TARGETS, Target


def rows_table(book: Book) -> list[list[str]]:
    """Medians, each with half the spread of its middle values."""
    ways = book.ways()
    lines = [["row", "unit", *ways]]
    for name, row in book.rows.items():
        figures = row.figures()
        cells = [
            f"{number(figures[way].median)} ±{figures[way].spread / 2:.0%}"
            if way in figures
            else "-"
            for way in ways
        ]
        lines.append([name, row.unit, *cells])
    return lines


def targets_table(book: Book, targets: Sequence[Target] = TARGETS) -> list[list[str]]:
    lines = [["target", "floor", "goal", "measured", "verdict"]]
    for target in targets:
        value = target.value(book)
        floor, goal = target.bounds.split(" | ")
        measured = "-" if value is None else number(value)
        lines.append([target.title, floor, goal, measured, target.verdict(book).value])
    return lines


def number(value: float) -> str:
    """Three digits."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def text(lines: Sequence[Sequence[str]]) -> str:
    """In columns, for a terminal."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def markdown(lines: Sequence[Sequence[str]]) -> str:
    head, *rest = lines
    rule = ["---"] * len(head)
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *rest))

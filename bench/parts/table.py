"""All parts by name: those that need the stage, and those that make what they need themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from bench import repositories
from bench.figures import Book
from bench.parts import (
    containers,
    density,
    egress,
    floods,
    helper,
    neighbours,
    programs,
    sessions,
    spawning,
)
from bench.scale import Scale
from bench.stage import Stage

Alone = Callable[[Book, Scale, set[str]], None]
Staged = Callable[[Stage, Book], None]


def _start_up(stage: Stage, book: Book) -> None:
    density.start_up(stage.instance, book, stage.scale.some)


def _crowd(stage: Stage, book: Book) -> None:
    density.crowd(stage.instance, book, stage.scale.crowd)


def _helper(stage: Stage, book: Book) -> None:
    helper.measure(stage.instance, "bench-0", stage.place, book, 4 * stage.scale.some)


def _sessions(stage: Stage, book: Book) -> None:
    sessions.measure(stage.instance, book, stage.scale.sessions, stage.scale.seconds)


def _floods(stage: Stage, book: Book) -> None:
    url = f"https://{stage.place}/{repositories.SMALL}.git"
    floods.measure(stage.instance, url, book, stage.scale.some)


def _programs(book: Book, scale: Scale, there: set[str]) -> None:
    programs.measure(book, 2 * scale.many)


def _spawning(book: Book, scale: Scale, there: set[str]) -> None:
    spawning.measure(book, scale.many)


def _egress(book: Book, scale: Scale, there: set[str]) -> None:
    egress.measure(book, there, scale.egress, scale.questions, scale.few)


def _containers(book: Book, scale: Scale, there: set[str]) -> None:
    if "docker" in there:
        containers.measure(book, scale.few)


def _neighbours(book: Book, scale: Scale, there: set[str]) -> None:
    neighbours.measure(book, scale.some, scale.beside)


STAGED: Final[Mapping[str, Staged]] = {
    "flood": _floods,
    "credential helper": _helper,
    "start-up": _start_up,
    "sessions": _sessions,
    "density": _crowd,
}
ALONE: Final[Mapping[str, Alone]] = {
    "hostctl": _programs,
    "spawn": _spawning,
    "egress": _egress,
    "containers": _containers,
    "neighbours": _neighbours,
}

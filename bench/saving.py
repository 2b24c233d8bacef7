"""Runs as files: bench/results/DATE-KIND.json."""

from __future__ import annotations

import json
import time
from pathlib import Path

from attrs import frozen

from bench.figures import Book, book_of

RESULTS = Path(__file__).with_name("results")


@frozen
class Saved:
    """A run: when, of what kind, on what machine, and what was seen."""

    date: str
    kind: str
    machine: dict[str, str]
    book: Book

    @property
    def name(self) -> str:
        return f"{self.date}-{self.kind}"


def now(kind: str, machine: dict[str, str], book: Book) -> Saved:
    return Saved(time.strftime("%Y-%m-%d", time.gmtime()), kind, machine, book)


def save(run: Saved, directory: Path = RESULTS) -> Path:
    directory.mkdir(exist_ok=True)
    path = directory / f"{run.name}.json"
    document = {
        "schema": "gitmoat.bench/1",
        "date": run.date,
        "kind": run.kind,
        "machine": run.machine,
        "rows": run.book.as_json(),
    }
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def latest(kind: str, directory: Path = RESULTS) -> Path | None:
    return max(directory.glob(f"*-{kind}.json"), default=None)


def load(path: Path) -> Saved:
    document = json.loads(path.read_text(encoding="utf-8"))
    rows = book_of(document["rows"])
    return Saved(document["date"], document["kind"], document["machine"], rows)

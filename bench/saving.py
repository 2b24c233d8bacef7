"""Runs as files: bench/results/DATE-KIND.json, and the same as Markdown beside it."""

from __future__ import annotations

import json
import time
from pathlib import Path

from attrs import evolve, frozen

from bench import table
from bench.figures import Book, book_of
from bench.plots import pictures

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
    path.with_suffix(".md").write_text(summary(run), encoding="utf-8")
    for name, picture in pictures(run.book).items():
        (directory / f"{run.name}-{name}.svg").write_text(str(picture), encoding="utf-8")
    return path


def add_to_last(run: Saved, directory: Path = RESULTS) -> Saved:
    """The last run of this kind with these rows in place of its own; rows of a full run go into
    the last quick one while there is no full one."""
    found = latest(run.kind, directory) or latest("quick", directory)
    if found is None:
        return run
    last = load(found)
    return evolve(run, kind=last.kind, book=Book(last.book.rows | run.book.rows))


def latest(kind: str, directory: Path = RESULTS) -> Path | None:
    return max(directory.glob(f"*-{kind}.json"), default=None)


def load(path: Path) -> Saved:
    document = json.loads(path.read_text(encoding="utf-8"))
    rows = book_of(document["rows"])
    return Saved(document["date"], document["kind"], document["machine"], rows)


def summary(run: Saved) -> str:
    machine = "\n".join(f"- {name}: {value}" for name, value in run.machine.items())
    targets = table.markdown(table.targets_table(run.book))
    rows = table.markdown(table.rows_table(run.book))
    return f"# {run.name}\n\n{machine}\n\n{targets}\n\n{rows}\n"

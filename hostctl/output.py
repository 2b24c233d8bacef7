"""What goes to stdout and what to stderr: results here, progress and hints there."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from json import dumps
from typing import TextIO

from hostctl.failure import Failure, plain
from hostctl.terminal.waiting_line import Waiting

Item = Mapping[str, object]
Column = str | Callable[[Item], object]
_GREEN, _RED, _DIM, _RESET = "\x1b[32m", "\x1b[31m", "\x1b[2m", "\x1b[0m"


class Output:
    """Writes for people, or with `--json` one object with a schema for scripts."""

    def __init__(
        self,
        json: bool = False,
        quiet: bool = False,
        colour: bool = False,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
    ) -> None:
        self.json = json
        self.quiet = quiet
        self.colour = colour
        self._stdout = sys.stdout if stdout is None else stdout
        self._stderr = sys.stderr if stderr is None else stderr

    def result(self, text: str, fields: Mapping[str, object]) -> None:
        """The outcome of a command: the text for people, the fields for scripts."""
        if self.json:
            self.emit(fields)
        elif text and not self.quiet:
            self.line(text)

    def line(self, text: str) -> None:
        print(text, file=self._stdout, flush=True)

    def emit(self, fields: Mapping[str, object]) -> None:
        self._write_json(fields, self._stdout)

    def summary(self, fields: Mapping[str, object]) -> None:
        """For commands whose stdout belongs to what they run: the object goes to stderr."""
        if self.json:
            self._write_json(fields, self._stderr)

    def progress(self, text: str) -> None:
        if not self.quiet:
            print(Waiting.clear + plain(text), file=self._stderr, flush=True)

    def failure(self, failure: Failure) -> None:
        for line in failure.lines():
            print(line, file=self._stderr, flush=True)
        if self.json:
            self.emit({"schema": "gitmoat.error/1", "error": failure.mapping()})

    def table(self, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        self.columns([header, *rows])

    def columns(self, rows: Sequence[Sequence[object]]) -> None:
        """Each as wide as its widest cell; all rows have as many cells."""
        cells = [[plain(cell) for cell in row] for row in rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for row in cells:
            padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            self.line("  ".join(padded).rstrip())

    def listing(
        self, schema: str, items: Sequence[Item], key: str, columns: Mapping[str, Column], none: str
    ) -> int:
        """What every `ls` prints: all of it as JSON, with -q the values of `key`, or a table."""
        if self.json:
            self.emit({"schema": schema, "items": items})
        elif self.quiet:
            for item in items:
                self.line(str(item.get(key, "")))
        elif items:
            self.table(
                list(columns), [[_cell(item, c) for c in columns.values()] for item in items]
            )
        else:
            self.progress(none)
        return 0

    def good(self, text: str) -> str:
        return self._paint(_GREEN, text)

    def bad(self, text: str) -> str:
        return self._paint(_RED, text)

    def dim(self, text: str) -> str:
        return self._paint(_DIM, text)

    def can_show(self, text: str) -> bool:
        try:
            text.encode(self._stdout.encoding or "ascii")
        except (UnicodeEncodeError, LookupError):
            return False
        return True

    def _paint(self, colour: str, text: str) -> str:
        return f"{colour}{text}{_RESET}" if self.colour else text

    def _write_json(self, fields: Mapping[str, object], stream: TextIO) -> None:
        print(dumps(fields, ensure_ascii=True), file=stream, flush=True)


def _cell(item: Item, column: Column) -> object:
    return (item.get(column) if isinstance(column, str) else column(item)) or "-"


def wants_colour(environ: Mapping[str, str], refused: bool, stdout: TextIO) -> bool:
    if refused or environ.get("NO_COLOR") or environ.get("TERM") == "dumb":
        return False
    return stdout.isatty()


def need_root(what: str) -> None:
    if os.geteuid() != 0:
        raise Failure(
            "C102", f"{what} needs root", "only uid 0 may use the control sockets", "use sudo"
        )

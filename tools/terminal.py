"""A picture of what a command printed: `hostctl demo | python -m tools.terminal demo.svg`."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.svg import Picture

COLUMNS = 118
_ADVANCE = 7.25
_LEADING = 18
_MARKS = {"✓": "good", "✗": "bad"}


def picture(command: str, lines: list[str]) -> str:
    width = int(COLUMNS * _ADVANCE) + 40
    made = Picture(width, (len(lines) + 1) * _LEADING + 40, f"What `{command}` prints")
    made.cells(20 + _ADVANCE, 32, f"# {command}", "ink bold", _ADVANCE)
    for number, line in enumerate(lines, 1):
        y = 32 + number * _LEADING
        mark, rest = (line[0], line[1:]) if line[:1] in _MARKS else (" ", line)
        made.cells(20, y, mark, _MARKS.get(mark, "ink"), _ADVANCE)
        made.cells(20 + _ADVANCE, y, cut(rest, COLUMNS - 1), "ink", _ADVANCE)
    return str(made)


def cut(line: str, columns: int) -> str:
    return line if len(line) <= columns else line[: columns - 1] + "…"


def main() -> None:
    lines = sys.stdin.read().splitlines()
    Path(sys.argv[1]).write_text(picture("make demo", lines), encoding="utf-8")


if __name__ == "__main__":
    main()

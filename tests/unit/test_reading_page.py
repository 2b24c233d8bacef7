"""The page that says what to read: its files exist, its functions are there, and it stays short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reading.md"
MOST = 6000  # lines; who reads for a day reads no more

_ROW = re.compile(r"^\| `([\w/]+\.py)` \| (.+) \|$", re.MULTILINE)
_FUNCTION = re.compile(r"`(\w+)` \| ")


def parts() -> tuple[str, str]:
    """What answers the two questions, and the list."""
    before, heading, listed = PAGE.read_text(encoding="utf-8").partition("## The files\n")
    assert heading
    return before, listed


FUNCTIONS = [(file, rest) for file, rest in _ROW.findall(parts()[0])]
FILES = [file for file, _ in _ROW.findall(parts()[1])]


def test_the_list_is_read_in_a_day() -> None:
    lengths = {file: len(ROOT.joinpath(file).read_bytes().splitlines()) for file in FILES}
    total = sum(lengths.values())
    print(f"docs/reading.md: {len(FILES)} files, {total:,} lines of {MOST:,}")
    assert len(FILES) >= 25, "a row is `folder/file.py`, its promise, and what to look for"
    assert total <= MOST, f"{total} lines: take a file out of docs/reading.md, or make one shorter"


def test_no_file_is_listed_twice() -> None:
    assert sorted(FILES) == sorted(set(FILES))


def test_every_program_and_library_that_a_push_meets_is_listed() -> None:
    folders = {Path(file).parts[0] for file in FILES}
    assert {"netpolicy", "sidecar", "broker", "hostd"} <= folders


@pytest.mark.parametrize(("file", "rest"), FUNCTIONS)
def test_a_function_that_the_page_names_is_in_its_file(file: str, rest: str) -> None:
    named = _FUNCTION.match(rest)
    assert named is not None, f"{file}: the second column names a function"
    source = ROOT.joinpath(file).read_text(encoding="utf-8")
    assert re.search(rf"^\s*(?:async )?(?:def|class) {named[1]}\b", source, re.MULTILINE), named[1]


def test_the_line_that_the_page_quotes_is_the_one_that_refuses() -> None:
    quoted = re.search(r"\*\*The last line refuses: `([^`]+)`", parts()[0])
    assert quoted is not None
    source = ROOT.joinpath("netpolicy/decision.py").read_text(encoding="utf-8")
    assert source.count(quoted[1]) == 1

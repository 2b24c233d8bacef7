"""The tables of docs/attacks.md and docs/requirements.md are complete, and name what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from attrs import frozen

from tests.stage.sources import ROOT, files

ATTACKS = ROOT / "docs" / "attacks.md"
REQUIREMENTS = ROOT / "docs" / "requirements.md"

# Whose every file of tests tries something that the page has a row for.
TRIES = ("adversary", "faults", "smuggling")
# About how something is looked at, not about an attack.
OF_THE_TESTS = {"tests/faults/test_inventories.py"}

_FILE = re.compile(r"`((?:[\w.-]+/)+[\w.-]+|requirements\.lock)`")
_TEST_NUMBER = re.compile(r"\b[Rr]ows? ((?:\d+(?:, | and | to )?)+)")


@frozen
class Line:
    cells: tuple[str, ...]

    @property
    def number(self) -> str:
        return self.cells[0]

    def files(self, cell: int) -> list[str]:
        return _FILE.findall(self.cells[cell])


def lines(page: Path, number: str) -> list[Line]:
    """The rows of all tables of a page whose first cell fits."""
    found = []
    for text in page.read_text(encoding="utf-8").splitlines():
        cells = tuple(cell.strip() for cell in text.strip().strip("|").split(" | "))
        if text.startswith("|") and re.fullmatch(number, cells[0]):
            found.append(Line(cells))
    return found


ATTACK_LINES = lines(ATTACKS, r"\d+")
FAULT_LINES = lines(ATTACKS, r"F\d+")
ANSWERS = lines(REQUIREMENTS, r"\d+")
POINTS = lines(REQUIREMENTS, r"R\d+")


def numbers(found: list[Line]) -> list[int]:
    return [int(line.number.strip("FR")) for line in found]


def test_every_attack_and_every_fault_is_there_once() -> None:
    for found in (numbers(ATTACK_LINES), numbers(FAULT_LINES)):
        assert found and len(set(found)) == len(found)
    assert sorted(numbers(FAULT_LINES)) == list(range(1, len(FAULT_LINES) + 1))


def untried(page: str) -> set[str]:
    """Files of attacks and faults that no row names."""
    tests = [path for folder in TRIES for path in files(ROOT / "tests" / folder, "test_*.py")]
    names = {str(path.relative_to(ROOT)) for path in tests}
    return names - OF_THE_TESTS - set(_FILE.findall(page))


def test_every_file_of_attacks_and_faults_is_in_a_row() -> None:
    page = "\n".join(" | ".join(line.cells) for line in (*ATTACK_LINES, *FAULT_LINES))
    assert untried(page) == set()
    assert "tests/adversary/test_tiers.py" in untried(page.replace("test_tiers", "test_gone"))


@pytest.mark.parametrize("line", [*ATTACK_LINES, *FAULT_LINES], ids=lambda line: line.number)
def test_each_names_a_control_and_files_that_have_tests(line: Line) -> None:
    assert all(line.cells)
    tests = line.files(-1)
    assert tests, line
    for test in tests:
        assert "def test_" in (ROOT / test).read_text(encoding="utf-8"), test


def test_attacks_of_which_a_part_remains_are_counted_and_described() -> None:
    residual = [line for line in ATTACK_LINES if "residual" in line.cells[1]]
    words = {1: "One row is", 2: "Two rows are", 3: "Three rows are", 4: "Four rows are"}
    assert f"{words[len(residual)]} marked *residual*" in " ".join(ATTACKS.read_text().split())


def test_numbers_that_tests_speak_of_are_in_the_table() -> None:
    known, seen = set(numbers(ATTACK_LINES)), set()
    for file in files(ROOT / "tests" / "adversary", "test_*.py"):
        for mentioned in _TEST_NUMBER.findall(file.read_text(encoding="utf-8")):
            found = {int(number) for number in re.findall(r"\d+", mentioned)}
            assert found <= known, f"{file.name}: {mentioned}"
            seen |= found
    assert seen


def test_answers_are_numbered_once_each() -> None:
    found = numbers(ANSWERS)
    assert found and sorted(found) == list(range(1, len(found) + 1))


@pytest.mark.parametrize("line", ANSWERS, ids=lambda line: line.number)
def test_each_answer_names_code_and_a_test(line: Line) -> None:
    _, asked, code, tests = line.cells
    assert asked
    assert line.files(2) or "](" in code, "where the code is"
    assert any(file.startswith("tests/") for file in line.files(3)), tests
    for file in (*line.files(2), *line.files(3)):
        assert (ROOT / file).exists(), file


def test_every_point_of_the_reviews_is_answered_by_rows_that_exist() -> None:
    assert POINTS and numbers(POINTS) == list(range(1, len(POINTS) + 1))
    known = set(numbers(ANSWERS))
    for line in POINTS:
        rows = {int(number) for number in line.cells[2].split(", ")}
        assert rows, line
        assert rows <= known, line

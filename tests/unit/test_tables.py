"""The tables of docs/attacks.md and docs/requirements.md are complete, and name what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from attrs import frozen

ROOT = Path(__file__).parents[2]
ATTACKS = ROOT / "docs" / "attacks.md"
REQUIREMENTS = ROOT / "docs" / "requirements.md"

# The numbers by which attacks and faults are known; they have gaps.
ATTACK_NUMBERS = {
    1, 2, 3, 5, 6, 7, 8, 10, 12, 14, 15, 16, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 32,
    33, 34, 36, 37, 38, 39, 41, 42, 43, 44, 45, 47, 48, 49, 51, 52, 54, 55, 56, 57, 58, 59, 60, 61,
    64, 65, 68, 70, 71, 72, 73, 74, 75, 76, 78, 79, 80, 81, 83, 84, 85, 87, 88, 90, 91, 92, 95, 96,
    97, 98, 100, 101, 103, 104, 105, 106, 107, 108, 109, 110, 111,
    112, 113, 114, 120, 121, 122, 123, 124, 125, 126, 130, 131, 132, 133, 134, 135, 136, 137,
    138, 139, 140, 141, 142, 143, 144, 145, 150, 151, 152, 153,
}  # fmt: skip
FAULT_NUMBERS = set(range(1, 38))
RESIDUAL = {24, 25, 105}
REVIEWED = [f"R{number}" for number in range(1, 33)]

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
    assert sorted(numbers(ATTACK_LINES)) == sorted(ATTACK_NUMBERS)
    assert numbers(FAULT_LINES) == sorted(FAULT_NUMBERS)


@pytest.mark.parametrize("line", [*ATTACK_LINES, *FAULT_LINES], ids=lambda line: line.number)
def test_each_names_a_control_and_files_that_have_tests(line: Line) -> None:
    assert all(line.cells)
    tests = line.files(-1)
    assert tests, line
    for test in tests:
        assert "def test_" in (ROOT / test).read_text(encoding="utf-8"), test


def test_only_known_attacks_have_a_part_that_remains() -> None:
    assert {int(line.number) for line in ATTACK_LINES if "residual" in line.cells[1]} == RESIDUAL


def test_numbers_that_tests_speak_of_are_in_the_table() -> None:
    for file in sorted((ROOT / "tests" / "adversary").glob("test_*.py")):
        for mentioned in _TEST_NUMBER.findall(file.read_text(encoding="utf-8")):
            found = {int(number) for number in re.findall(r"\d+", mentioned)}
            assert found <= ATTACK_NUMBERS, f"{file.name}: {mentioned}"


def test_answers_are_numbered_once_each() -> None:
    found = numbers(ANSWERS)
    assert sorted(found) == list(range(1, len(found) + 1))


@pytest.mark.parametrize("line", ANSWERS, ids=lambda line: line.number)
def test_each_answer_names_code_and_a_test(line: Line) -> None:
    _, asked, code, tests = line.cells
    assert asked
    assert line.files(2) or "](" in code, "where the code is"
    assert any(file.startswith("tests/") for file in line.files(3)), tests
    for file in (*line.files(2), *line.files(3)):
        assert (ROOT / file).exists(), file


def test_every_point_of_the_reviews_is_answered_by_rows_that_exist() -> None:
    assert [line.number for line in POINTS] == REVIEWED
    known = set(numbers(ANSWERS))
    for line in POINTS:
        rows = {int(number) for number in line.cells[2].split(", ")}
        assert rows, line
        assert rows <= known, line

"""Fragments of changelog.d become items of CHANGELOG.md, each under its kind, security first."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stage.sources import ROOT
from tools.changelog import KINDS, assembled, fragments, main

BEFORE = "# Changelog\n\nAbout.\n\n{}## [0.1.0]\n\n### Added\n\n- Old.\n"
UNRELEASED = "## Unreleased\n\nIn short.\n\n### Fixed\n\n- One.\n\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "changelog.d"
    folder.mkdir()
    (folder / "README").write_text("How.\n")
    (folder / "other.fixed.md").write_text("Two,\nin two lines.\n")
    (folder / "hole.security.md").write_text("Closed.\n")
    return tmp_path


@pytest.mark.parametrize(
    ("there", "about", "fixed"), [("", "", ""), (UNRELEASED, "In short.\n\n", "- One.\n")]
)
def test_items_stand_under_their_kind_and_nothing_else_changes(
    root: Path, there: str, about: str, fixed: str
) -> None:
    (root / "CHANGELOG.md").write_text(BEFORE.format(there))
    assert main(root) == 0
    section = (
        f"## Unreleased\n\n{about}### Security\n\n- Closed.\n\n"
        f"### Fixed\n\n{fixed}- Two,\n  in two lines.\n\n"
    )
    assert (root / "CHANGELOG.md").read_text() == BEFORE.format(section)
    assert [path.name for path in (root / "changelog.d").iterdir()] == ["README"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.wrong.md", "Text."),
        ("a.md", "Text."),
        ("a.fixed.txt", "Text."),
        ("a.fixed.md", ""),
        ("a.fixed.md", "- Text."),
        ("a.fixed.md", "One.\n\nTwo."),
    ],
)
def test_what_could_not_be_taken_as_it_is_leaves_everything(
    root: Path, name: str, text: str
) -> None:
    (root / "CHANGELOG.md").write_text(BEFORE.format(UNRELEASED))
    (root / "changelog.d" / name).write_text(text)
    assert main(root) == 1
    assert (root / "CHANGELOG.md").read_text() == BEFORE.format(UNRELEASED)
    assert (root / "changelog.d" / "other.fixed.md").exists()


def test_the_repositorys_own_can_be_taken() -> None:
    new = fragments(ROOT / "changelog.d")
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    made = assembled(text, new)
    assert sorted(set(text.splitlines()) - set(made.splitlines())) == []
    assert all(each.item in made and each.kind in KINDS for each in new)

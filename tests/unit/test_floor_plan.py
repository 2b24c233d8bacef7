"""Where modules are: no folder is overfull, and a module's name says which one is meant."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.stage.sources import ROOT, product_files

MOST = 16  # modules in a folder, `__init__` not counted
VERBS = Path("hostctl/commands")  # one module each, named as it is typed

# The same thing of another program, or of another kind of rule or request: that is what it shows.
SAME_IN_ANOTHER = {
    "__main__": "a program",
    "service": "wires its program and runs it",
    "exchange": "runs one request of any kind, at its hop",
    "kind": "what a kind of request is, at its hop",
    "git": "the kind of request, at its hop",
    "grants": "signed by hostd, believed by the broker",
    "helper_link": "the two ends of one link",
    **dict.fromkeys(
        ("asking", "options", "record", "refusal", "remarks", "tables", "words"),
        "the same part of two kinds of rule",
    ),
}


def modules(root: Path) -> Mapping[Path, set[str]]:
    """The modules of each folder of the product."""
    found: dict[Path, set[str]] = defaultdict(set)
    for path in product_files(root):
        inside = path.relative_to(root)
        if inside.name != "__init__.py":
            found[inside.parent].add(inside.stem)
    return found


def overfull(root: Path) -> list[str]:
    full = {folder: len(names) for folder, names in modules(root).items() if len(names) > MOST}
    return [f"{folder} has {number}" for folder, number in full.items() if folder != VERBS]


def namesakes(root: Path) -> dict[str, list[str]]:
    places: dict[str, list[str]] = defaultdict(list)
    for folder, names in modules(root).items():
        for name in names if folder != VERBS else ():
            places[name].append(str(folder))
    return {name: sorted(found) for name, found in places.items() if len(found) > 1}


def test_no_folder_is_overfull() -> None:
    assert overfull(ROOT) == []


def test_a_name_stands_for_one_module_or_for_the_same_thing_elsewhere() -> None:
    assert sorted(set(namesakes(ROOT)) - set(SAME_IN_ANOTHER)) == []


def test_every_exception_is_needed() -> None:
    assert sorted(set(SAME_IN_ANOTHER) - set(namesakes(ROOT))) == []


@pytest.mark.parametrize("folder", ["broker", "gitmoat/wire/git"])
def test_a_planted_crowd_and_a_planted_namesake_are_seen(tmp_path: Path, folder: str) -> None:
    crowd = tmp_path / folder
    crowd.mkdir(parents=True)
    for number in range(MOST + 1):
        (crowd / f"part{number}.py").touch()
    (tmp_path / "hostd").mkdir()
    (tmp_path / "hostd" / "part0.py").touch()
    assert overfull(tmp_path) == [f"{folder} has {MOST + 1}"]
    assert namesakes(tmp_path) == {"part0": sorted([folder, "hostd"])}


def test_the_verbs_may_be_as_many_as_they_are(tmp_path: Path) -> None:
    (tmp_path / VERBS).mkdir(parents=True)
    for number in range(MOST + 1):
        (tmp_path / VERBS / f"verb{number}.py").touch()
    assert overfull(tmp_path) == [] and namesakes(tmp_path) == {}

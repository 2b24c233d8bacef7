"""A wheel has every folder of the product that has Python files: setup.cfg forgets none."""

from __future__ import annotations

import configparser
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.stage.sources import NOT_INSTALLED, ROOT, product_files


def included() -> list[str]:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    return setup["options.packages.find"]["include"].split()


def forgotten(root: Path) -> list[str]:
    """Folders with Python files that setuptools takes for no package, or that no line names."""
    missing = []
    for folder in sorted({path.parent.relative_to(root) for path in product_files(root)}):
        package = ".".join(folder.parts)
        above = [folder, *folder.parents][:-1]
        whole = all((root / each / "__init__.py").is_file() for each in above)
        if not whole or not any(fnmatchcase(package, line) for line in included()):
            missing.append(package)
    return missing


def test_every_folder_of_the_product_is_a_package_that_is_installed() -> None:
    assert forgotten(ROOT) == []


def test_every_line_of_setup_cfg_names_one_package_that_is_there() -> None:
    tops = {path.relative_to(ROOT).parts[0] for path in product_files()}
    assert sorted(f"{top}*" for top in tops) == sorted(included())


def test_no_line_of_setup_cfg_names_what_is_not_installed() -> None:
    assert not [name for name in NOT_INSTALLED for line in included() if fnmatchcase(name, line)]


@pytest.mark.parametrize("name", ["gitmoat/wire/http", "netpolicy/a/b/c", "inspector"])
def test_a_planted_folder_is_seen(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir(parents=True)
    (tmp_path / name / "reader.py").touch()
    assert forgotten(tmp_path) == [name.replace("/", ".")]


def test_a_planted_package_at_any_depth_is_installed(tmp_path: Path) -> None:
    folder = tmp_path
    for part in ("gitmoat", "wire", "http"):
        folder /= part
        folder.mkdir()
        (folder / "__init__.py").touch()
    assert forgotten(tmp_path) == []


def test_a_scan_that_finds_nothing_fails(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").touch()
    with pytest.raises(AssertionError, match="no Python file"):
        forgotten(tmp_path)

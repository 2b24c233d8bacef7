"""Source files for tests that read them. A scan that finds nothing fails: it would show nothing."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
# Folders of the checkout with Python files that no installation has.
NOT_INSTALLED = {"bench", "docs", "examples", "tests", "tools"}
# What building leaves in a checkout.
_BUILT = {"build", "dist", "man"}


def files(folder: Path, pattern: str = "*.py") -> list[Path]:
    """All files below a folder whose name fits, in order."""
    found = sorted(path for path in folder.rglob(pattern) if path.is_file())
    assert found, f"{folder} has no file {pattern}: was it moved?"
    return found


def product_files(root: Path = ROOT) -> list[Path]:
    """Every Python file of what is installed, at any depth, whether setup.cfg knows it or not."""
    tops = (path for path in sorted(root.iterdir()) if path.is_dir() and path.name[0] != ".")
    product = (path for path in tops if path.name not in NOT_INSTALLED | _BUILT)
    found = [path for top in product for path in sorted(top.rglob("*.py"))]
    assert found, f"{root} has no Python file of the product"
    return found

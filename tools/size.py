"""Lines and modules of the product, per package: `python -m tools.size`.

Lines are those of files, with comments and empty ones, as `wc -l` counts them.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
# Everything that is installed.
PACKAGES = (
    "audit", "broker", "confine", "credential_helper", "gitmoat", "gitwire", "hostctl", "hostd",
    "identity", "limits", "netpolicy", "sidecar", "streams",
)  # fmt: skip
OTHERS = ("bench", "tests", "tools")


def size(package: str) -> tuple[int, int]:
    """Modules and lines."""
    files = list((ROOT / package).rglob("*.py"))
    return len(files), sum(len(path.read_bytes().splitlines()) for path in files)


def main() -> None:
    found = {package: size(package) for package in (*PACKAGES, *OTHERS)}
    for package in PACKAGES:
        print(_line(package, *found[package]))
    modules, lines = (sum(found[package][part] for package in PACKAGES) for part in (0, 1))
    print(_line("the product", modules, lines), end="\n\n")
    for package in OTHERS:
        print(_line(package, *found[package]))
    pages = [path for path in (ROOT / "docs").rglob("*.md") if path.parent.name not in _MADE]
    print(_line("pages", len(pages), sum(len(p.read_bytes().splitlines()) for p in pages)))


_MADE = ("cli", "made")


def _line(name: str, files: int, lines: int) -> str:
    return f"{name:18} {files:4} {lines:7,}"


if __name__ == "__main__":
    main()

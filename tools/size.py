"""Lines and modules of the product, per part: `python -m tools.size`.

Lines are those of files, with comments and empty ones, as `wc -l` counts them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Everything that is installed: who may import whom is said of these. One that lies inside another
# is counted by itself.
PARTS = (
    "broker", "credential_helper", "gitmoat", "gitmoat.audit", "gitmoat.confine",
    "gitmoat.identity", "gitmoat.limits", "gitmoat.net", "gitmoat.wire", "hostctl", "hostd",
    "netpolicy", "sidecar",
)  # fmt: skip
OTHERS = ("bench", "tests", "tools")


@cache
def part_of(module: str, parts: tuple[str, ...] = PARTS) -> str:
    """The innermost part that a module is in; empty if it is none of ours."""
    inside = [part for part in parts if module == part or module.startswith(part + ".")]
    return max(inside, key=len, default="")


def size(part: str) -> tuple[int, int]:
    """Modules and lines."""
    files = [path for path in (ROOT / part.replace(".", "/")).rglob("*.py") if _in(path, part)]
    return len(files), sum(len(path.read_bytes().splitlines()) for path in files)


def _in(path: Path, part: str) -> bool:
    module = ".".join(path.relative_to(ROOT).parent.parts)
    return part in OTHERS or part_of(module) == part


def main() -> None:
    found = {part: size(part) for part in (*PARTS, *OTHERS)}
    for part in PARTS:
        print(_line(part, *found[part]))
    modules, lines = (sum(found[part][which] for part in PARTS) for which in (0, 1))
    print(_line("the product", modules, lines), end="\n\n")
    for part in OTHERS:
        print(_line(part, *found[part]))
    pages = [path for path in (ROOT / "docs").rglob("*.md") if path.parent.name not in _MADE]
    print(_line("pages", len(pages), sum(len(p.read_bytes().splitlines()) for p in pages)))


_MADE = ("cli", "made")


def _line(name: str, files: int, lines: int) -> str:
    return f"{name:18} {files:4} {lines:7,}"


if __name__ == "__main__":
    main()

"""python -m tools.changelog: moves the fragments of changelog.d into CHANGELOG.md."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

ROOT = Path(__file__).resolve().parents[1]
# In the order in which a version lists them: what a reader has to do something about is first.
KINDS = ("security", "removed", "changed", "added", "fixed")
_NAME = re.compile(rf"[a-z0-9-]+\.({'|'.join(KINDS)})\.md")
_UNRELEASED = "## Unreleased\n"
_KIND = re.compile(r"(?m)^### (\w+)\n")


@frozen
class Fragment:
    path: Path
    kind: str
    item: str


class NotAFragment(Exception):
    """A file of changelog.d that CHANGELOG.md could not take as it is."""


def fragments(folder: Path) -> list[Fragment]:
    return [_read(path) for path in sorted(folder.iterdir()) if path.name != "README"]


def _read(path: Path) -> Fragment:
    name = _NAME.fullmatch(path.name)
    if name is None:
        raise NotAFragment(f"{path.name}: not NAME.KIND.md, KIND one of {', '.join(KINDS)}")
    lines = path.read_text(encoding="utf-8").strip().splitlines()
    if not all(lines) or not lines or lines[0][0] in "-#":
        raise NotAFragment(f"{path.name}: not one paragraph of text")
    return Fragment(path, name[1], "- " + "\n  ".join(line.strip() for line in lines))


def assembled(changelog: str, new: Sequence[Fragment]) -> str:
    """The section Unreleased, which is begun if there is none, with the items under their kinds."""
    at = changelog.index("\n## ") + 1
    before, rest = changelog[:at], changelog[at:].removeprefix(_UNRELEASED)
    if rest == changelog[at:]:
        rest = "\n" + rest
    own, _, older = rest.partition("\n## ")
    about, *parts = _KIND.split(own)
    items = {kind.lower(): [text] for kind, text in zip(parts[::2], parts[1::2], strict=True)}
    for each in new:
        items.setdefault(each.kind, []).append(each.item)
    lists = [f"### {kind.capitalize()}\n\n" + _list(items[kind]) for kind in KINDS if kind in items]
    section = "\n\n".join(text.strip() for text in (about, *lists) if text.strip())
    return f"{before}{_UNRELEASED}\n{section}\n\n## {older}"


def _list(items: Sequence[str]) -> str:
    return "\n".join(item.strip("\n") for item in items)


def main(root: Path = ROOT) -> int:
    changelog = root / "CHANGELOG.md"
    try:
        new = fragments(root / "changelog.d")
    except NotAFragment as problem:
        print(f"changelog.d: {problem}", file=sys.stderr)
        return 1
    changelog.write_text(assembled(changelog.read_text(encoding="utf-8"), new), encoding="utf-8")
    for each in new:
        each.path.unlink()
    print(f"CHANGELOG.md: {len(new)} items added")
    return 0


if __name__ == "__main__":
    sys.exit(main())

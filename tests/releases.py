"""The releases that packaging/releases.txt names, as this clone's history has them.

`python -m tests.releases` fails where it has not all of them, as after `git clone --depth 1`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from attrs import frozen

ROOT = Path(__file__).parents[1]
FILE = ROOT / "packaging" / "releases.txt"


@frozen
class Release:
    version: str
    commit: str


def parse(text: str) -> list[Release]:
    """In the order of the file, which is that of time."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [Release(*line.split(" ")) for line in lines]


def releases() -> list[Release]:
    return parse(FILE.read_text(encoding="utf-8"))


def git(*words: str) -> subprocess.CompletedProcess[bytes]:
    command = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), *words]
    return subprocess.run(command, capture_output=True, check=False)


def missing() -> list[Release]:
    """Those of which nothing is known here: there is no repository, or too little of it."""
    return [
        each for each in releases() if git("cat-file", "-e", f"{each.commit}^{{tree}}").returncode
    ]


def shown(those: list[Release]) -> str:
    return f"{', '.join(each.version for each in those)} not in this clone's history"


def main() -> int:
    absent = missing()
    if absent:
        print(f"releases: {shown(absent)}: git fetch --unshallow", file=sys.stderr)
    return 1 if absent else 0


if __name__ == "__main__":
    sys.exit(main())

"""Which scripts of git's suite use HTTP, how one is run, and what it says of its tests."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

from tests.peers.git_suite.tree import Tree

UID = 1_990_000_001  # nobody's; below those of sandboxes. Apache and the scripts refuse root.
_SECONDS = 1800
_SOURCES = re.compile(r"^\s*\.\s+\S*?([\w.-]+\.sh)\b", re.MULTILINE)
# Subversion over HTTP is another protocol.
_NOT_OURS = "lib-git-svn.sh"
_POINT = re.compile(r"^(ok|not ok) (\d+)(?: - (.*?))?(?: # (skip|TODO) (.*))?$", re.MULTILINE)
_PLAN = re.compile(r"^1\.\.(\d+)(?: # SKIP (.*))?$", re.MULTILINE)


def using_http(scripts: Path) -> list[str]:
    """Those that source lib-httpd.sh, or a file that does."""
    return sorted(
        path.stem
        for path in scripts.glob("t[0-9]*.sh")
        if "lib-httpd.sh" in _sourced(scripts, path.name, set())
    )


def _sourced(scripts: Path, name: str, seen: set[str]) -> set[str]:
    path = scripts / name
    if name in seen or name == _NOT_OURS or not path.exists():
        return seen | {name}
    seen = seen | {name}
    for each in _SOURCES.findall(path.read_text(encoding="latin-1")):
        seen = _sourced(scripts, each, seen)
    return seen


@frozen
class Point:
    """One test of a script: `passed`, `failed`, `skipped`, or `broken`, as git knows it to be."""

    number: int
    name: str
    result: str


def points(tap: str) -> list[Point]:
    """In the order in which they ran."""
    found = []
    for said, number, name, directive, more in _POINT.findall(tap):
        result = "passed" if said == "ok" else "failed"
        if directive == "skip":
            result, name = "skipped", more
        elif directive == "TODO" and said == "not ok":
            result = "broken"
        found.append(Point(int(number), name, result))
    return found


def skipped_whole(tap: str) -> str:
    """Why a script ran none of its tests; empty if it did."""
    plan = _PLAN.search(tap)
    return (plan[2] or "") if plan and plan[1] == "0" else ""


@frozen
class Said:
    """What one run of a script printed, and what its commands did."""

    tap: str
    log: str

    @property
    def points(self) -> list[Point]:
        return points(self.tap)

    @property
    def whole(self) -> bool:
        """It came to its end."""
        plan = _PLAN.search(self.tap)
        return bool(plan) and not skipped_whole(self.tap)

    def about(self, number: int) -> str:
        """The end of what the test's commands did."""
        part = re.split(rf"^(?:not )?ok {number}\b", self.log, maxsplit=1, flags=re.MULTILINE)[0]
        begun = part.rfind("\nexpecting ")
        return part[begun:][-3000:]


def run(tree: Tree, script: str, place: Path, environment: Mapping[str, str]) -> Said:
    """`place` becomes its own; every process that it starts is gone when it has ended."""
    place.mkdir(mode=0o755)
    subprocess.run(["chown", str(UID), str(place)], check=True)
    done = subprocess.run(
        [
            *("unshare", "--pid", "--fork", "--kill-child", "--mount-proc"),
            *("setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--no-new-privs"),
            *("/bin/sh", f"./{script}.sh", "--verbose-log", "-x", f"--root={place}"),
        ],
        cwd=tree.scripts,
        env={
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "LC_ALL": "C",
            "TERM": "dumb",
            "HOME": str(place),
            "TEST_OUTPUT_DIRECTORY": str(place),
            "GIT_TEST_HTTPD": "true",  # to go without Apache would be an error
            "GIT_TEST_CHAIN_LINT": "0",
            **environment,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_SECONDS,
        check=False,
    )
    (log,) = (place / "test-results").glob("*.out")
    return Said(done.stdout.decode(errors="replace"), log.read_text(errors="replace"))

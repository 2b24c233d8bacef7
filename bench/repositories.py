"""Repositories of the shapes that people have: small, large, of many refs, of many objects."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

SMALL, LARGE, REFS, OBJECTS = "shapes/small", "shapes/large", "shapes/refs", "shapes/objects"
PUSHED = "shapes/pushed"
_MIB = 1 << 20
_WHO = b"committer Bench <bench@gitmoat.invalid> %d +0000\n"
_START = 1700000000


def git(directory: Path, *words: str, stdin: bytes = b"") -> str:
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", "-C", str(directory), *words]
    done = subprocess.run(command, input=stdin, capture_output=True, env=environment, check=True)
    return done.stdout.decode().strip()


def make_shapes(repositories: Path, large: int, objects: int, refs: int) -> None:
    """`large` MiB, and so many objects and refs."""
    make_small(repositories)
    _make(repositories, LARGE, _commits(1, large, _MIB, 2))
    _make(repositories, OBJECTS, _commits(objects // 25, 20, 300, 3))
    _make(repositories, REFS, _commits(1, 20, 2000, 4))
    _add_refs(repositories / f"{REFS}.git", refs)


def make_small(repositories: Path) -> None:
    _make(repositories, SMALL, _commits(1, 20, 2000, 1))


def empty(repositories: Path, name: str) -> Path:
    """A bare repository without anything, in place of the one that was there."""
    bare = repositories / f"{name}.git"
    shutil.rmtree(bare, ignore_errors=True)
    bare.parent.mkdir(parents=True, exist_ok=True)
    git(bare.parent, "init", "--quiet", "--bare", "--initial-branch=main", str(bare))
    return bare


def make_source(directory: Path, mib: int) -> Path:
    """What is pushed: one pack of this size on main."""
    return _make(directory, "source", _commits(1, mib, _MIB, 5))


def _make(repositories: Path, name: str, stream: Iterator[bytes]) -> Path:
    bare = empty(repositories, name)
    # Without searching for deltas: the pack is what the stream says.
    words = ("-c", "core.compression=0", "-c", "fastimport.unpackLimit=0")
    command = ["git", *words, "--git-dir", str(bare), "fast-import", "--quiet", "--depth=0"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        for piece in stream:
            process.stdin.write(piece)
        process.stdin.close()
        if process.wait():
            raise RuntimeError(f"{name} could not be made")
    return bare


def _commits(count: int, files: int, size: int, seed: int) -> Iterator[bytes]:
    """Each commit writes so many files of random bytes, in its own directory."""
    source = random.Random(seed)
    for number in range(count):
        yield b"commit refs/heads/main\n" + _WHO % (_START + number) + b"data 4\nwork\n"
        for each in range(files):
            head = b"M 100644 inline d%d/%d/f%d\ndata %d\n" % (number // 40, number, each, size)
            yield head + source.randbytes(size) + b"\n"


def _add_refs(bare: Path, count: int) -> None:
    commit = git(bare, "rev-parse", "refs/heads/main")
    lines = [f"create refs/heads/topic/{number:06} {commit}" for number in range(count)]
    git(bare, "update-ref", "--stdin", stdin="\n".join(lines).encode() + b"\n")
    git(bare, "pack-refs", "--all")

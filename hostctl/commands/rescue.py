"""`hostctl rescue`: saves what a sandbox's repositories hold that was pushed nowhere."""

from __future__ import annotations

import os
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

from gitmoat.paths import Paths
from hostctl.copy.carry import carry
from hostctl.copy.unpushed import Unpushed, changes_of, commits_of, unpushed
from hostctl.failure import Failure
from hostctl.output import Output
from hostctl.terminal.quantities import size
from hostctl.terminal.waiting_line import Waiting

ABOUT = """\
Writes what was pushed nowhere into DIR: for each repository at /workspace, in the home directory
or one level below them a bundle of its commits and its latest stash (NAME.bundle) and a patch of
what is not committed (NAME.patch).

  git fetch NAME.bundle 'refs/heads/*:refs/heads/rescued/*'
  git fetch NAME.bundle refs/stash && git stash apply FETCH_HEAD
  git apply NAME.patch

The sandbox's own git writes both, so read them before you use them. No file is overwritten."""
_SIZE = 4 << 30
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("sandbox", metavar="S", help="id or name of a running sandbox")
    parser.add_argument("directory", metavar="DIR", nargs="?", default=".", help="where to (.)")
    limit = "most bytes of one file (default 4g)"
    parser.add_argument("--max-size", type=size, default=_SIZE, metavar="4g", help=limit)


def main(args: Namespace, paths: Paths, out: Output) -> int:
    socket, sandbox = paths.hostd_socket, str(args.sandbox)
    try:
        with Waiting("looking"):
            found = unpushed(socket, sandbox)
    except Failure as failure:
        if failure.code == "R106":
            failure.fix = f"hostctl start {sandbox}"
        raise
    written: list[str] = []
    for stem, each in zip(_stems(sandbox, found), found, strict=True):
        for line in each.lines():
            out.progress(line)
        if each.damaged:
            out.progress(f"  nothing is saved of it; hostctl cp {sandbox}:DIR copies its files")
        written += _save(args, socket, stem, each)
    text = "\n".join(written)
    if not found:
        text = f"nothing in {sandbox} was pushed nowhere"
    fields = [each._asdict() for each in found]
    out.result(text, {"schema": "gitmoat.rescue/1", "files": written, "repositories": fields})
    return 0


def _stems(sandbox: str, found: Sequence[Unpushed]) -> Iterator[str]:
    """A name for the files of each; two directories may have the same last part."""
    taken: set[str] = set()
    for each in found:
        last = os.path.basename(each.directory)  # noqa: PTH119
        base = stem = _NOT_IN_A_NAME.sub("-", f"{sandbox}-{last}")
        for number in count(2):
            if stem not in taken:
                break
            stem = f"{base}-{number}"
        taken.add(stem)
        yield stem


def _save(args: Namespace, socket: Path, stem: str, work: Unpushed) -> list[str]:
    sandbox = str(args.sandbox)
    parts = [(".bundle", commits_of)] if work.commits else []
    parts += [(".patch", changes_of)] if work.changes else []
    return [
        _write(args, socket, stem + ending, request(sandbox, work.directory))
        for ending, request in parts
    ]


def _write(args: Namespace, socket: Path, name: str, request: dict[str, object]) -> str:
    file, left = Path(args.directory, name), args.max_size
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as problem:
        fix = "name another directory, or move what is there"
        raise Failure("R112", f"{file} cannot be written", problem.strerror or "", fix) from None
    try:
        with os.fdopen(descriptor, "wb") as stream:

            def take(data: bytes) -> None:
                nonlocal left
                left -= len(data)
                if left < 0:
                    raise Failure("R112", f"{name} has more than --max-size", fix="raise it")
                stream.write(data)

            with Waiting(f"writing {name}"):
                code, error = carry(socket, request, iter(()), take)
        if code != 0:
            raise Failure("R112", f"{name} was not finished", error or f"git ended with {code}")
    except BaseException:
        with suppress(OSError):
            file.unlink()
        raise
    return str(file)

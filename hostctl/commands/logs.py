"""`hostctl logs`: what the command of a detached sandbox printed."""

from __future__ import annotations

import os
import sys
import time
from argparse import ArgumentParser, Namespace
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from gitmoat.paths import Paths
from hostctl.control_client import ask, items_of
from hostctl.failure import NOT_FOUND, Failure
from hostctl.output import Output
from hostctl.terminal.controls import shown_plainly

ABOUT = """\
Prints what the command of `hostctl run -d` printed, standard error included.

The last 8 to 16 MiB are kept. On a terminal control bytes are shown as `?`;
a pipe gets every byte as it is."""
_READ = 65536
_LOOK_AGAIN = 0.3
_ASK_AGAIN = 2.0


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("sandbox", metavar="S", help="id or name")
    parser.add_argument(
        "-f", "--follow", action="store_true", help="go on until the sandbox has stopped"
    )


def main(args: Namespace, paths: Paths, out: Output) -> int:
    sandbox = _identifier(paths, args.sandbox)
    log = paths.sandbox_log(sandbox)
    if not log.exists():
        raise Failure(
            "R103",
            f"sandbox {args.sandbox} has no log",
            "only the output of `hostctl run -d` is kept",
            "start the sandbox with -d",
            exit_code=NOT_FOUND,
        )
    pieces = _followed(paths, sandbox, log) if args.follow else _kept(log)
    if sys.stdout.isatty():
        pieces = without_controls(pieces)
    for piece in pieces:
        sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
    return 0


def without_controls(pieces: Iterable[bytes]) -> Iterator[bytes]:
    decoder = getincrementaldecoder("utf-8")("replace")
    for piece in pieces:
        yield shown_plainly(decoder.decode(piece)).encode()


def _identifier(paths: Paths, wanted: str) -> str:
    found = _state(paths, wanted)
    if found is None:
        raise Failure("R103", f"there is no sandbox {wanted!r}", "no sandbox has this id or name")
    return found[0]


def _state(paths: Paths, wanted: str) -> tuple[str, str] | None:
    """Id and state of a sandbox, running or stopped."""
    for item in items_of(ask(paths.hostd_socket, {"op": "ls"})):
        if wanted in (item.get("sandbox"), item.get("name")):
            return str(item["sandbox"]), str(item.get("state"))
    return None


def _kept(log: Path) -> Iterator[bytes]:
    yield from _whole(_older(log))
    yield from _whole(log)


def _older(log: Path) -> Path:
    return log.with_name(f"{log.name}.1")


def _whole(path: Path) -> Iterator[bytes]:
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        yield from _rest(file)


def _rest(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(_READ):
        yield piece


def _followed(paths: Paths, sandbox: str, log: Path) -> Iterator[bytes]:
    """What is there and what comes; a log that was begun anew is read from its beginning."""
    yield from _whole(_older(log))
    file: BinaryIO = log.open("rb")
    asked = time.monotonic()
    while True:
        yield from _rest(file)
        if _replaced(log, file.fileno()):
            yield from _rest(file)  # written just before that
            file.close()
            file = log.open("rb")
            continue
        if time.monotonic() - asked > _ASK_AGAIN:
            asked, found = time.monotonic(), _state(paths, sandbox)
            if found is None or found[1] != "running":
                yield from _rest(file)
                return
        time.sleep(_LOOK_AGAIN)


def _replaced(log: Path, descriptor: int) -> bool:
    try:
        return log.stat().st_ino != os.fstat(descriptor).st_ino
    except FileNotFoundError:
        return False

"""`hostctl cp`: files and directories into a running sandbox, and out of it."""

from __future__ import annotations

import os
import posixpath
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from errno import ELOOP
from pathlib import Path
from typing import NamedTuple

from gitmoat.paths import Paths
from hostctl.copy.carry import carry
from hostctl.copy.packing import Packer
from hostctl.copy.tarstream import TarMalformed, TarReader
from hostctl.copy.untar import Bounds, Extractor
from hostctl.failure import NOT_FOUND, Failure, usage
from hostctl.output import Output
from hostctl.terminal.quantities import count, size
from hostctl.terminal.waiting_line import Waiting

ABOUT = """\
Copies a file or a directory into a running sandbox, or out of it.

  hostctl cp S:PATH DIR     out of sandbox S; a relative PATH starts at /workspace
  hostctl cp PATH S:DIR     into sandbox S, as files of the untrusted uid

If the target is a directory the copy goes into it under its own name, else it becomes the
target. What is copied out belongs to the user who runs hostctl and has no setuid bits. Links that
point outside the copy, hard links and devices end the copy; with --skip they are left out. No
symbolic link is followed on this host, not even in the path that is typed."""
_PLACE = re.compile(r"([a-z0-9][a-z0-9-]*):(.+)", re.DOTALL)
_WORKSPACE = "/workspace"
_ENTRIES = 200_000
_SIZE = 4 << 30


class Place(NamedTuple):
    """A path on this host, or in a sandbox if that is set; absolute, without `..`."""

    sandbox: str | None
    path: str

    @property
    def parent(self) -> str:
        return posixpath.dirname(self.path)

    @property
    def name(self) -> bytes:
        return os.fsencode(posixpath.basename(self.path))


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("source", metavar="FROM", help="PATH or S:PATH")
    parser.add_argument(
        "target", metavar="TO", help="PATH or S:PATH; exactly one of the two is in a sandbox"
    )
    parser.add_argument("--skip", action="store_true", help="leave out what cannot be copied")
    parser.add_argument(
        "--max-entries",
        type=count,
        default=_ENTRIES,
        metavar="N",
        help=f"most files (default {_ENTRIES})",
    )
    parser.add_argument(
        "--max-size", type=size, default=_SIZE, metavar="4g", help="most bytes (default 4g)"
    )


def main(args: Namespace, paths: Paths, out: Output) -> int:
    source, target = parse_place(args.source), parse_place(args.target)
    if (source.sandbox is None) == (target.sandbox is None):
        raise usage("one of the two must be in a sandbox", "hostctl cp S:PATH DIR, or PATH S:DIR")
    copy = _copy_out if source.sandbox is not None else _copy_in
    try:
        with Waiting("copying"):
            entries, size = copy(args, out, paths.hostd_socket, source, target)
    except OSError as problem:
        raise Failure("R112", "the copy was not finished", _why(problem)) from None
    except Failure as failure:
        if failure.code == "R106":
            failure.fix = f"hostctl start {source.sandbox or target.sandbox}"
        raise
    fields = {"schema": "gitmoat.cp/1", "entries": entries, "bytes": size}
    out.result(f"copied {entries} {'entry' if entries == 1 else 'entries'}, {size} bytes", fields)
    return 0


def _why(problem: OSError) -> str:
    name = problem.filename
    words = [problem.strerror or type(problem).__name__]
    return ": ".join([*words, os.fsdecode(name)] if isinstance(name, str | bytes) else words)


def parse_place(text: str) -> Place:
    matched = _PLACE.fullmatch(text)
    sandbox, path = (matched[1], matched[2]) if matched else (None, text)
    if not path or "\0" in path:
        raise usage("a path is empty", "hostctl cp S:PATH DIR, or PATH S:DIR")
    whole = posixpath.join(_WORKSPACE if sandbox else os.getcwd(), path)  # noqa: PTH109
    whole = posixpath.normpath(whole).replace("//", "/")
    if whole == "/":
        raise usage("the root directory cannot be copied", "name a directory in it")
    return Place(sandbox, whole)


def _copy_out(
    args: Namespace, out: Output, socket: Path, source: Place, target: Place
) -> tuple[int, int]:
    reader = TarReader()
    bounds = Bounds(args.max_entries, args.max_size)
    with _opened_target(target, source.name) as (directory, name):
        skipped = out.progress if args.skip else None
        extractor = Extractor(directory, source.name, name, bounds, skipped)

        def take(data: bytes) -> None:
            for event in reader.feed(data):
                extractor.take(event)

        try:
            code, error = carry(socket, _exec(source, *_pack(source)), iter(()), take)
            if code != 0 and extractor.entries == 0 and "unrecognized option" in error:
                plainly = _exec(source, *_pack_plainly(source))
                code, error = carry(socket, plainly, iter(()), take)
            _judge(code, error, extractor)
            reader.finish()
        except TarMalformed as problem:
            what = "the sandbox did not send a valid archive"
            raise Failure("R112", what, str(problem), "do not use what was copied") from None
        finally:
            extractor.close()
    return extractor.entries, extractor.size


def _judge(code: int, error: str, extractor: Extractor) -> None:
    """tar exits with 1 when a file changed while it was read: that copy is complete."""
    if code == 0 or (code == 1 and extractor.entries):
        return
    if extractor.entries == 0 and (code == 2 or "No such file" in error):
        fix = "a relative path starts at /workspace"
        raise Failure("R112", "there is nothing to copy", error, fix, NOT_FOUND)
    raise Failure("R112", "not everything was copied", error or f"tar ended with {code}")


def _copy_in(
    args: Namespace, out: Output, socket: Path, source: Place, target: Place
) -> tuple[int, int]:
    inside, _ = carry(socket, _exec(target, "test", "-d", target.path), iter(()), _ignore)
    where = target.path if inside == 0 else target.parent
    name = source.name if inside == 0 else target.name
    packer = Packer(out.progress)
    unpack = ("tar", "-xf", "-", "--no-same-owner", "-C", where)
    parent = _open(source.parent)
    try:
        stream = packer.stream(parent, source.name, name)
        code, error = carry(socket, _exec(target, *unpack), stream, _ignore)
    finally:
        os.close(parent)
    if code != 0:
        raise Failure("R112", "not everything was copied", error or f"tar ended with {code}")
    return packer.entries, packer.size


def _exec(place: Place, *argv: str) -> dict[str, object]:
    return {"op": "exec", "sandbox": place.sandbox, "as": "untrusted", "argv": list(argv)}


def _pack(source: Place) -> tuple[str, ...]:
    whose = ("--owner=0", "--group=0", "--numeric-owner")
    what = ("-C", source.parent, "--", os.fsdecode(source.name))
    return ("tar", "-cf", "-", "--format=gnu", "--hard-dereference", *whose, *what)


def _pack_plainly(source: Place) -> tuple[str, ...]:
    """For an image whose tar is busybox's; a second name of a file is then a hard link."""
    return ("tar", "-cf", "-", "-C", source.parent, "--", os.fsdecode(source.name))


def _ignore(data: bytes) -> None:
    pass


@contextmanager
def _opened_target(target: Place, name: bytes) -> Iterator[tuple[int, bytes]]:
    """The directory that the copy goes to, and its name there."""
    try:
        directory = _open(target.path)
    except (FileNotFoundError, NotADirectoryError):
        directory, name = _open(target.parent), target.name
    try:
        yield directory, name
    finally:
        os.close(directory)


def _open(path: str) -> int:
    # ctypes takes long to import, and `cp --help` needs none of it.
    from gitmoat.confine.opened import open_directory

    try:
        return open_directory(path)
    except OSError as problem:
        if problem.errno != ELOOP:
            raise OSError(problem.errno, os.strerror(problem.errno or 0), path) from None
        what, fix = (
            f"{path} is not followed",
            "give the path that it resolves to; realpath prints it",
        )
        raise Failure("R112", what, "a part of it is a symbolic link", fix) from None

"""`hostctl diff`: what a sandbox changed, as the git gate sees it."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from codecs import getincrementaldecoder

from gitmoat.paths import Paths
from hostctl.commands.git import gate_request
from hostctl.copy.carry import carry
from hostctl.failure import Failure
from hostctl.output import Output
from hostctl.terminal.controls import shown_plainly

ABOUT = """\
Shows what a sandbox changed since it left the default branch: what is committed, and what is not.
With REV, what that revision of the workspace changed.

The git gate takes the objects and compares them in a repository of its own: no hook, attribute,
filter or configuration of the workspace has a part in it. What is not committed is what the
sandbox's own git would commit. On a terminal control bytes are shown as `?`."""


def arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("sandbox", metavar="S", help="id or name")
    add("revision", metavar="REV", nargs="?", help="a branch, tag or commit of the workspace")
    add("--repo", default="origin", metavar="R", help="which, of several repositories")


def main(args: Namespace, paths: Paths, out: Output) -> int:
    words = ["diff", args.repo, *([args.revision] if args.revision else [])]
    decoder = getincrementaldecoder("utf-8")("replace")
    plainly = sys.stdout.isatty()

    def take(data: bytes) -> None:
        shown = shown_plainly(decoder.decode(data)).encode() if plainly else data
        sys.stdout.buffer.write(shown)
        sys.stdout.buffer.flush()

    code, error = carry(paths.hostd_socket, gate_request(args.sandbox, words), iter(()), take)
    if code != 0:
        raise Failure("R105", "the difference is not complete", error)
    out.summary({"schema": "gitmoat.diff/1", "sandbox": args.sandbox})
    return 0

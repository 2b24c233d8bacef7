"""`hostctl start`: makes a stopped sandbox run again, on its old files."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from gitmoat.paths import Paths
from hostctl.control_client import ask
from hostctl.output import Output

_TIMEOUT = 120.0
ABOUT = """\
Makes a stopped sandbox run again: its files, new rules, a new sidecar and a new session.

No command is started; use `hostctl exec`. A work directory is checked again, and refused when
another one is at its path. A session that was revoked or has expired cannot be used again: the
sandbox then runs without git."""


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("sandbox", metavar="S", help="id or name")


def main(args: Namespace, paths: Paths, out: Output) -> int:
    request = {"op": "start", "sandbox": args.sandbox}
    answer = ask(paths.hostd_socket, request, out.progress, timeout=_TIMEOUT)
    fields = {"schema": "gitmoat.start/1", "sandbox": answer.get("sandbox")}
    out.result(args.sandbox, fields)
    return 0

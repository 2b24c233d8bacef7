"""`hostctl stop`: ends a sandbox and keeps its files."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from gitmoat.paths import Paths
from hostctl.control_client import ask
from hostctl.output import Output

_TIMEOUT = 120.0
ABOUT = """\
Revokes the session and ends every process of a sandbox; its files stay.

`hostctl start` makes it run again, `hostctl rm` removes it."""


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("sandbox", metavar="S", help="id or name")


def main(args: Namespace, paths: Paths, out: Output) -> int:
    request = {"op": "stop", "sandbox": args.sandbox}
    ask(paths.hostd_socket, request, out.progress, timeout=_TIMEOUT)
    out.result(args.sandbox, {"schema": "gitmoat.stop/1", "sandbox": args.sandbox})
    return 0

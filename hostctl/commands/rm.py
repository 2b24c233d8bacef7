"""`hostctl rm`: ends sandboxes and removes everything of them."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from gitmoat.paths import Paths
from hostctl.control_client import ask
from hostctl.failure import Failure
from hostctl.output import Output

_TIMEOUT = 660.0  # a large workspace takes its time
ABOUT = "Revokes the session, ends every process of a sandbox and removes everything of it."


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("sandboxes", metavar="S", nargs="+", help="id or name")
    parser.add_argument("-f", "--force", action="store_true", help="also while its command runs")


def main(args: Namespace, paths: Paths, out: Output) -> int:
    socket, removed = paths.hostd_socket, []
    failed: Failure | None = None
    for sandbox in args.sandboxes:
        try:
            request = {"op": "rm", "sandbox": sandbox, "force": args.force}
            ask(socket, request, out.progress, timeout=_TIMEOUT)
        except Failure as failure:
            if failure.code == "C103" or len(args.sandboxes) == 1:
                raise
            failed = failed or failure
            continue
        removed.append(sandbox)
        if not out.json and not out.quiet:
            out.line(sandbox)
    if failed:
        raise failed
    if out.json:
        out.emit({"schema": "gitmoat.rm/1", "removed": removed})
    return 0

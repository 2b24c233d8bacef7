"""`hostctl rm`: ends sandboxes and removes everything of them."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from gitmoat.paths import Paths
from hostctl.control_client import ask
from hostctl.copy.unpushed import unpushed
from hostctl.failure import Failure
from hostctl.output import Output

_TIMEOUT = 660.0  # a large workspace takes its time
ABOUT = """\
Revokes the session, ends every process of a sandbox and removes everything of it. A sandbox whose
repositories hold work that was pushed nowhere, or cannot be asked, is kept without --force."""


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("sandboxes", metavar="S", nargs="+", help="id or name")
    parser.add_argument(
        "-f",
        "--force",
        action="store_true",
        help="also while its command runs, and unpushed work too",
    )


def main(args: Namespace, paths: Paths, out: Output) -> int:
    socket, removed = paths.hostd_socket, []
    failed: Failure | None = None
    for sandbox in args.sandboxes:
        try:
            if not args.force:
                _check_pushed(socket, sandbox)
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


def _check_pushed(socket: Path, sandbox: str) -> None:
    """Only those that were started for a repository: what else is in a sandbox was made there. One
    that is prepared has no container any more, and nothing of its own."""
    about = ask(socket, {"op": "inspect", "sandbox": sandbox})
    name = str(about.get("name"))
    if not about.get("repositories") or about.get("state") == "prepared":
        return
    if about.get("state") != "running":
        what = f"{name} is {about.get('state')}, so its repositories cannot be asked"
        raise Failure("R118", what, fix=f"hostctl start {name}, or hostctl rm --force {name}")
    try:
        found = unpushed(socket, sandbox)
    except Failure as failure:
        if failure.code in ("R112", "C106"):  # of what runs in it
            failure.fix = f"hostctl rm --force {name} removes it unseen"
        raise
    if found:
        what = f"{name} holds work that was pushed nowhere"
        fix = f"hostctl rescue {name} saves it; hostctl rm --force {name} removes it"
        raise Failure("R118", what, "; ".join(each.summary for each in found), fix)

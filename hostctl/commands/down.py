"""`hostctl down`: stops hostd and the broker."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from gitmoat.identity.control_socket import remove_stale_control
from gitmoat.paths import Paths
from hostctl.control_client import ask, items_of
from hostctl.failure import Failure
from hostctl.output import Output, need_root
from hostctl.setup.daemons import stop_daemon
from hostctl.terminal.questions import ask_yes, is_interactive

_SHOWN = 5

ABOUT = """\
Stops hostd, with it every process in its sandboxes, and the broker; idempotent. Where sandboxes
run it asks first, or, without a terminal, needs --force. `hostctl restart` keeps them running.

Workspaces stay until `hostctl rm`: what was committed and not pushed is not lost."""


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "-f", "--force", action="store_true", help="end running sandboxes without a question"
    )


def main(args: Namespace, paths: Paths, out: Output) -> int:
    need_root("`hostctl down`")
    if not args.force:
        _check_sandboxes(paths)
    stopped = stop_all(paths, out)
    text = "gitmoat is down" if stopped else "gitmoat was not running"
    out.result(text, {"schema": "gitmoat.down/1", "stopped": stopped})
    return 0


def _check_sandboxes(paths: Paths) -> None:
    """Asks, or refuses, where sandboxes would be ended."""
    try:
        items = items_of(ask(paths.hostd_socket, {"op": "ls"}))
    except Failure as failure:
        if failure.code != "C103":
            raise
        return  # no hostd, and nothing that it could end
    names = sorted(str(each.get("name")) for each in items if each.get("state") == "running")
    if not names:
        return
    what = f"this ends every process in {_counted(names)}"
    if is_interactive() and ask_yes(f"{what}; go on?", default=False):
        return
    raise Failure(
        "R108",
        f"nothing was stopped: {what}",
        why="their files stay, and their agents and builds end",
        fix="hostctl down --force; or hostctl restart, which keeps them running",
    )


def _counted(names: list[str]) -> str:
    shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    return f"{len(names)} running sandbox{'es' if len(names) > 1 else ''} ({shown})"


def stop_all(paths: Paths, out: Output) -> list[str]:
    """hostd first: it ends its sandboxes' sessions at the broker."""
    stopped = []
    for name, socket in (("hostd", paths.hostd_socket), ("broker", paths.broker_admin_socket)):
        if stop_daemon(name, socket):
            remove_stale_control(socket, root=paths.root)
            if name == "broker":
                remove_stale_control(paths.broker_metrics_socket, root=paths.root)
            out.progress(f"stopped {name}")
            stopped.append(name)
    return stopped

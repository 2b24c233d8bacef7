"""`hostctl down`: stops hostd and the broker."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from gitmoat.identity.control_socket import remove_stale_control
from gitmoat.paths import Paths
from hostctl.output import Output, need_root
from hostctl.setup.daemons import stop_daemon

ABOUT = """\
Stops hostd, with it every process in its sandboxes, and the broker; idempotent.

Workspaces stay until `hostctl rm`: what was committed and not pushed is not lost."""


def arguments(parser: ArgumentParser) -> None:
    pass


def main(args: Namespace, paths: Paths, out: Output) -> int:
    need_root("`hostctl down`")
    stopped = stop_all(paths, out)
    text = "gitmoat is down" if stopped else "gitmoat was not running"
    out.result(text, {"schema": "gitmoat.down/1", "stopped": stopped})
    return 0


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

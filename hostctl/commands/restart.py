"""`hostctl restart`: hostd and broker anew, while the sandboxes go on."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from gitmoat.paths import Paths
from hostctl.commands.up import report, start_missing
from hostctl.output import Output, need_root
from hostctl.setup.daemons import leave_daemon

ABOUT = """\
Ends hostd and the broker and starts them again, with what their configuration says now; starts what
does not run.

Sandboxes go on, and the new hostd takes them over. A command of `run -d` notices nothing. One that
a hostctl waits for (`run` without -d, `exec`) ends, because that hostctl loses its connection. Git
requests that are under way have the time of timeouts.drain, and new ones wait for the next broker.
"""


def arguments(parser: ArgumentParser) -> None:
    pass


def main(args: Namespace, paths: Paths, out: Output) -> int:
    need_root("`hostctl restart`")
    for name, socket in (("hostd", paths.hostd_socket), ("broker", paths.broker_admin_socket)):
        leave_daemon(name, socket)
    return report(paths, start_missing(paths, out), "restart", "was restarted", out)

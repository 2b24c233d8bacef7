"""`hostctl up`: broker and hostd on this machine, with embedded defaults; idempotent."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping

from gitmoat.paths import Paths
from hostctl.commands.status import daemon_status, troubles
from hostctl.failure import FAILED
from hostctl.output import Output, need_root
from hostctl.setup.daemons import Daemon, await_end, start_daemon
from hostctl.setup.defaults import need_directory, write_defaults
from hostctl.terminal.interrupts import raise_on_signals

ABOUT = """\
Starts broker and hostd on this machine and waits until both are ready.

If there is no configuration yet it writes one: keys, broker.toml, hostd.toml. What exists is left
as it is; a daemon that runs already keeps running."""


def arguments(parser: ArgumentParser) -> None:
    pass


def main(args: Namespace, paths: Paths, out: Output) -> int:
    need_root("`hostctl up`")
    need_directory(paths)
    raise_on_signals()
    write_defaults(paths)
    started = start_missing(paths, out)
    return report(paths, started, "up", "is up" if started else "was up already", out)


def start_missing(paths: Paths, out: Output) -> list[Daemon]:
    """Starts the daemons that do not run; if one cannot start, those started here are stopped."""
    started: list[Daemon] = []
    sockets = {"broker": paths.broker_admin_socket, "hostd": paths.hostd_socket}
    try:
        for name, socket in sockets.items():
            status = daemon_status(socket)
            if status.get("ending"):
                out.progress(f"waiting for the end of {name}, pid {status['pid']} ...")
                await_end(name, status["pid"])
            if status.get("ending") or status["pid"] is None:
                out.progress(f"starting {name} ...")
                started.append(start_daemon(name, paths))
    except BaseException:
        for daemon in reversed(started):
            daemon.stop()
        raise
    return started


def report(paths: Paths, started: list[Daemon], verb: str, word: str, out: Output) -> int:
    """`word`: what has become of it."""
    broker, hostd = daemon_status(paths.broker_admin_socket), daemon_status(paths.hostd_socket)
    text = f"gitmoat {word}: broker {_where(broker)}, hostd pid {hostd['pid']}"
    names = [daemon.name for daemon in started]
    fields = {"broker": broker, "hostd": hostd, "started": names}
    out.result(text, {"schema": f"gitmoat.{verb}/1", **fields})
    wrong = [*troubles(broker), *troubles(hostd)]
    for each in wrong:
        out.progress(f"but: {each}; `hostctl doctor` says what to do")
    return FAILED if wrong else 0


def _where(broker: Mapping[str, object]) -> str:
    address = broker.get("address")
    return f"pid {broker['pid']} on {address}" if address else f"pid {broker['pid']}"

"""Starts the broker: python -m broker --root DIR [--ready-fd N] [--admin-fd N]."""

from __future__ import annotations

import argparse
import gc
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

from twisted.internet.main import installReactor
from twisted.logger import (
    FilteringLogObserver,
    LogEvent,
    LogLevel,
    PredicateResult,
    globalLogBeginner,
    textFileLogObserver,
)

from broker.exchange.recording import unrecorded
from broker.service import Broker
from broker.startup import open_everything
from broker.warm import import_everything
from gitmoat.audit.journal import JournalUnavailable
from gitmoat.confine.confining import become_broker, stay_broker
from gitmoat.confine.linux import keep_large_blocks
from gitmoat.fault import Fault
from gitmoat.net.transport.epoll import Epoll
from gitmoat.paths import Paths

_YOUNG = 20_000


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="broker", description="The central broker of gitmoat.")
    root = os.environ.get("GITMOAT_ROOT", "/")
    parser.add_argument("--root", type=Path, default=Path(root), help="where etc, var and run are")
    parser.add_argument("--ready-fd", type=int, help="gets one line: ready, or an error as JSON")
    parser.add_argument(
        "--admin-fd", type=int, help="the control socket, listening, made by root (systemd: 3)"
    )
    parser.add_argument(
        "--foreground", action="store_true", help="for service managers; it never detaches itself"
    )
    return parser.parse_args(argv)


def _tell(descriptor: int | None, line: bytes) -> None:
    """One line to the process that started us, which may have ended."""
    if descriptor is None:
        return
    try:
        os.write(descriptor, line)
        os.close(descriptor)
    except OSError:
        pass


def _not_chatter(event: LogEvent) -> Any:
    """Twisted tells of every port it opens and closes, and each DNS question has one."""
    legacy = event.get("log_namespace") == "log_legacy"
    chatter = legacy and event.get("log_level") == LogLevel.info
    return PredicateResult.no if chatter else PredicateResult.maybe


def _reactor() -> Any:
    reactor: Any = Epoll()
    installReactor(reactor)
    return reactor


def _collect_rarely() -> None:
    """What is there now stays, and a request that is over leaves nothing to be found.

    A thousand requests under way have some fifty objects each: the usual limit of 700 would make
    the collector look through them again and again.
    """
    gc.freeze()
    gc.set_threshold(_YOUNG, 10, 10)


def _start(root: Path, admin_fd: int | None, reactor: Any) -> Broker:
    """A broker that will run with the reactor, with root given up."""
    handed = None if admin_fd is None else socket.socket(fileno=admin_fd)
    admin_uid = os.geteuid() if handed is None else 0
    resources = open_everything(Paths(root.absolute()), handed)
    broker = Broker(reactor, resources, admin_uid)
    import_everything()
    os.umask(0o077)
    state = str(Paths(root.absolute()).broker_state)
    if resources.ids.drops:
        become_broker(*resources.ids.pair, state)
    elif handed is not None:
        stay_broker(*resources.ids.pair, state)
    try:
        broker.start()
    except JournalUnavailable as error:
        raise unrecorded(error) from None
    return broker


def main(argv: list[str]) -> int:
    arguments = _arguments(argv)
    keep_large_blocks()
    os.umask(0o022)
    file: Any = textFileLogObserver(sys.stderr)
    quiet: Any = _not_chatter
    observer: Any = FilteringLogObserver(file, [quiet])
    globalLogBeginner.beginLoggingTo([observer], redirectStandardIO=False, discardBuffer=True)
    reactor = _reactor()
    try:
        broker = _start(arguments.root, arguments.admin_fd, reactor)
    except Fault as problem:
        error = json.dumps({"error": problem.mapping()})
        _tell(arguments.ready_fd, error.encode() + b"\n")
        sys.stderr.write(f"{problem.code} {problem.what}\nwhy: {problem.why}\nfix: {problem.fix}\n")
        return 1
    _collect_rarely()
    reactor.callWhenRunning(_tell, arguments.ready_fd, b"ready\n")
    reactor.run()
    return int(broker.failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""python -m hostd --root DIR [--ready-fd N]: the root daemon, in the foreground."""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
from typing import Any

from twisted.internet import epollreactor
from twisted.internet.defer import Deferred
from twisted.logger import Logger, globalLogBeginner, textFileLogObserver
from twisted.python.failure import Failure

from gitmoat.audit.journal import JournalUnavailable
from gitmoat.identity.control_errors import ControlSocketError
from gitmoat.identity.keyfile import KeyFileUnsafe
from gitmoat.paths import Paths
from hostd.failpoints import Failpoints
from hostd.failures import Failed
from hostd.service import Service

DESCRIPTORS = 65536


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="hostd", description=__doc__)
    parser.add_argument("--root", default=os.environ.get("GITMOAT_ROOT", "/"))
    parser.add_argument("--ready-fd", type=int, default=None)
    parser.add_argument("--failpoints-fd", type=int, default=None, help=argparse.SUPPRESS)
    return parser.parse_args()


def raise_descriptor_limit() -> None:
    """A sandbox takes about twenty: its listeners, namespace, processes, log and link."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = max(hard, DESCRIPTORS)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    except (OSError, ValueError):  # without CAP_SYS_RESOURCE: as many as the hard limit allows
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _tell(descriptor: int | None, text: str) -> None:
    if descriptor is None:
        return
    os.write(descriptor, text.encode() + b"\n")
    os.close(descriptor)


def _open(reactor: Any, root: str, failpoints: Failpoints) -> Deferred[None]:
    """The one boundary that turns what goes wrong at the start into a message."""
    if os.geteuid() != 0:
        raise Failed("C102", "hostd must be started as root", fix="sudo hostctl up", exit_code=7)
    try:
        return Service(reactor, Paths(root), failpoints).open()
    except ControlSocketError as problem:
        raise Failed(problem.code, problem.what, fix=problem.fix) from None
    except (KeyFileUnsafe, FileNotFoundError) as problem:
        raise Failed("N104", "the host key cannot be used", why=str(problem)) from None
    except JournalUnavailable as problem:
        raise Failed("B103", "hostd's audit journal cannot be written", why=str(problem)) from None


def main() -> int:
    arguments = _arguments()
    os.umask(0o022)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the host's key is in this process's memory
    raise_descriptor_limit()
    failpoints = Failpoints.of(arguments.failpoints_fd)
    epollreactor.install()
    from twisted.internet import reactor as installed

    reactor: Any = installed
    observer: Any = textFileLogObserver(sys.stderr)
    globalLogBeginner.beginLoggingTo([observer], redirectStandardIO=False)
    try:
        opened = _open(reactor, arguments.root, failpoints)
    except Failed as problem:
        return _not_started(arguments.ready_fd, problem)
    opened.addCallbacks(
        lambda _: _tell(arguments.ready_fd, "ready"),
        lambda failure: _give_up(reactor, arguments.ready_fd, failure),
    )
    reactor.run()
    return 0


def _not_started(descriptor: int | None, problem: Failed) -> int:
    _tell(descriptor, json.dumps({"error": problem.mapping()}))
    sys.stderr.write(f"hostd: {problem.what} [{problem.code}]\n  fix: {problem.fix}\n")
    return problem.exit_code


def _give_up(reactor: Any, descriptor: int | None, failure: Failure) -> None:
    """hostd does not run where the sandboxes of an earlier one could not be adopted or ended."""
    Logger().failure("hostd cannot take over", failure)
    why = failure.getErrorMessage()[:300]
    problem = Failed("R101", "hostd could not put in order what an earlier one left", why=why)
    _not_started(descriptor, problem)
    reactor.stop()


if __name__ == "__main__":
    sys.exit(main())

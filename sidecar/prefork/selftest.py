"""What a confined sidecar must not be able to do, tried from inside it."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

# EAGAIN is the process limit's answer to fork, EAFNOSUPPORT a kernel's without the family.
_DENIED: Final = frozenset({errno.EPERM, errno.EACCES, errno.EAGAIN, errno.EAFNOSUPPORT})


def _open_socket(family: int, kind: int = socket.SOCK_STREAM) -> Callable[[], None]:
    return lambda: socket.socket(family, kind).close()


def _open_file() -> None:
    os.close(os.open("/", os.O_RDONLY | os.O_CLOEXEC))


def _create_file() -> None:
    path = "/gitmoat-selftest"
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    Path(path).unlink()


def _fork() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def _execute() -> None:
    # A program that is not there: only the refusal to look for it counts as denied.
    os.execv("/nonexistent", ["/nonexistent"])  # noqa: S606


def _become_root() -> None:
    os.setuid(0)


# hostd names the results by this order.
_ATTEMPTS: Final[tuple[Callable[[], None], ...]] = (
    _open_socket(socket.AF_INET),
    _open_socket(socket.AF_UNIX),
    _open_socket(socket.AF_NETLINK, socket.SOCK_RAW),
    _open_socket(socket.AF_VSOCK),
    _open_file,
    _create_file,
    _fork,
    _execute,
    _become_root,
)


def run_selftest() -> list[bool]:
    """For each attempt, whether it was denied."""
    return [_is_denied(attempt) for attempt in _ATTEMPTS]


def _is_denied(attempt: Callable[[], None]) -> bool:
    try:
        attempt()
    except OSError as error:
        return error.errno in _DENIED
    return False

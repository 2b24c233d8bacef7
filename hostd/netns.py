"""What a single-threaded child does inside a sandbox's network namespace: sysctls and listeners.

The creator's uid of a socket is what nftables sees (`meta skuid`) and, for a Unix socket, what a
client sees of the server; so sockets are created, and Unix sockets listen, with euid SIDE. The
bind stays root's: the ports are below 1024 so that nobody in the sandbox can squat them.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HELPER_GIT_PORT = 418
UNTRUSTED_GIT_PORT = 419
_BACKLOG = 128

_SYSCTLS = {
    "net/ipv4/ip_unprivileged_port_start": "1024",
    "net/ipv6/conf/all/disable_ipv6": "1",
    "net/ipv6/conf/default/disable_ipv6": "1",
    "net/ipv6/conf/lo/disable_ipv6": "1",
    "net/ipv4/ping_group_range": "1\t0",
}


def _sysctl_files() -> Iterator[tuple[Path, str]]:
    for name, value in _SYSCTLS.items():
        path = Path("/proc/sys", name)
        if "ipv6" not in name or path.exists():  # a kernel may have no IPv6
            yield path, value


def set_sysctls() -> None:
    for path, value in _sysctl_files():
        path.write_text(value, encoding="ascii")


def survey() -> dict[str, list[str]]:
    """What is not as it must be in this namespace: interfaces beside lo, sysctls not set."""
    lines = Path("/proc/thread-self/net/dev").read_text(encoding="ascii").splitlines()[2:]
    names = [line.partition(":")[0].strip() for line in lines]
    return {
        "interfaces": [name for name in names if name != "lo"],
        "sysctls": [
            str(path) for path, value in _sysctl_files() if path.read_text("ascii").strip() != value
        ],
    }


@contextmanager
def _as_user(uid: int) -> Iterator[None]:
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


def _tcp_listener(uid: int, port: int) -> int:
    with _as_user(uid):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setblocking(False)
    listener.bind(("127.0.0.1", port))
    listener.listen(_BACKLOG)
    return listener.detach()


def _unix_listener(uid: int, path: str, kind: socket.SocketKind, mode: int) -> int:
    with _as_user(uid):
        listener = socket.socket(socket.AF_UNIX, kind)
    listener.setblocking(False)
    Path(path).unlink(missing_ok=True)
    listener.bind(path)
    Path(path).chmod(mode)
    with _as_user(uid):
        listener.listen(_BACKLOG)
    return listener.detach()


def make_listeners(uid: int, credential: str, control: str) -> tuple[int, int, int, int]:
    """In the order of sidecar.service.Inherited: two git ports, credential, control socket."""
    return (
        _tcp_listener(uid, HELPER_GIT_PORT),
        _tcp_listener(uid, UNTRUSTED_GIT_PORT),
        _unix_listener(uid, credential, socket.SOCK_STREAM, 0o666),
        _unix_listener(uid, control, socket.SOCK_SEQPACKET, 0o600),
    )

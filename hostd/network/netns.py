"""What a single-threaded child does inside a sandbox's network namespace: sysctls and listeners.

nftables matches the uid that created a socket (`meta skuid`), and the client of a Unix socket gets
the uid that called listen() (SO_PEERCRED in unix(7)); so both are done with the sidecar's euid. The
bind is root's: ports below 1024 cannot be taken by a process of the sandbox.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gitmoat.listeners import LISTENERS, LOOPBACK, Listener
from hostd.network import netlink
from hostd.process.requests import Surveyed
from netpolicy.nftables import SYNTHETIC

_BACKLOG = 128
_LO = 1  # the index of `lo` in every network namespace

_EVERY = "0.0.0.0"
_RTM_NEWROUTE, _RTA_DST, _RTA_OIF = 24, 1, 4
_NFT_NEWGEN, _NFT_GETGEN, _NFTA_GEN_ID = 10 << 8 | 15, 10 << 8 | 16, 1

_SYSCTLS = {
    "net/ipv4/ip_unprivileged_port_start": "1024",
    "net/ipv6/conf/all/disable_ipv6": "1",
    "net/ipv6/conf/default/disable_ipv6": "1",
    "net/ipv6/conf/lo/disable_ipv6": "1",
    "net/ipv4/ping_group_range": "1\t0",
    "net/ipv4/conf/all/route_localnet": "0",
    "net/ipv4/conf/lo/route_localnet": "0",
}


def _sysctl_files() -> Iterator[tuple[Path, str]]:
    for name, value in _SYSCTLS.items():
        path = Path("/proc/sys", name)
        if "ipv6" not in name or path.exists():  # a kernel may have no IPv6
            yield path, value


def set_sysctls() -> None:
    for path, value in _sysctl_files():
        path.write_text(value, encoding="ascii")


def survey() -> Surveyed:
    """The interfaces and settings of this namespace that it must not have."""
    lines = Path("/proc/thread-self/net/dev").read_text(encoding="ascii").splitlines()[2:]
    names = [line.partition(":")[0].strip() for line in lines]
    return Surveyed(
        interfaces=tuple(name for name in names if name != "lo"),
        sysctls=tuple(
            str(path) for path, value in _sysctl_files() if path.read_text("ascii").strip() != value
        ),
        generation=rules_generation(),
    )


def rules_generation() -> int:
    """The kernel's count of changes to the rules of this namespace (NFT_MSG_GETGEN)."""
    asked = netlink.message(_NFT_GETGEN, netlink.REQUEST, bytes(4))
    kind, body = netlink.ask(netlink.NETFILTER, asked)
    attribute = struct.unpack_from("=HH", body, 4) if len(body) >= 12 else (0, 0)
    if kind != _NFT_NEWGEN or attribute != (8, _NFTA_GEN_ID):
        raise OSError("the kernel does not say how often its rules were changed")
    found: int = struct.unpack_from("!I", body, 8)[0]
    return found


@contextmanager
def _as_user(uid: int) -> Iterator[None]:
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


def add_synthetic_route() -> None:
    """Makes every synthetic address local: `ip route replace local NET dev lo` (ip-route(8))."""
    network, _, length = SYNTHETIC.partition("/")
    # struct rtmsg: family, lengths, tos, local table, static, host scope, local type, flags
    route = struct.pack("=8BI", socket.AF_INET, int(length), 0, 0, 255, 4, 254, 2, 0)
    route += netlink.attribute(_RTA_DST, socket.inet_aton(network))
    route += netlink.attribute(_RTA_OIF, struct.pack("=I", _LO))
    flags = netlink.REQUEST | netlink.ACKNOWLEDGE | netlink.REPLACE | netlink.CREATE
    try:
        netlink.change(socket.NETLINK_ROUTE, netlink.message(_RTM_NEWROUTE, flags, route))
    except OSError as problem:
        what = f"no route to the synthetic addresses: {problem.strerror}"
        raise OSError(problem.errno, what) from None


def _tcp_listener(uid: int, port: int, address: str) -> int:
    with _as_user(uid):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setblocking(False)
    listener.bind((address, port))
    listener.listen(_BACKLOG)
    return listener.detach()


def _datagram_socket(uid: int, port: int) -> int:
    """Without SO_REUSEADDR, with which another UDP socket could bind the port too (socket(7))."""
    with _as_user(uid):
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.setblocking(False)
    datagrams.bind((LOOPBACK, port))
    return datagrams.detach()


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


def make_listeners(uid: int, credential: str, control: str) -> tuple[int, ...]:
    """The listeners of all rows of the table, in its order."""
    paths = {"credential": credential, "control": control}
    return tuple(_listener(uid, row, paths) for row in LISTENERS)


def _listener(uid: int, row: Listener, paths: Mapping[str, str]) -> int:
    if row.port is None:
        return _unix_listener(uid, paths[row.name], row.kind, row.mode)
    if row.kind is socket.SOCK_DGRAM:
        return _datagram_socket(uid, row.port)
    # Bound to every address, for all synthetic ones; nftables rejects the others.
    return _tcp_listener(uid, row.port, LOOPBACK if row.network == LOOPBACK else _EVERY)

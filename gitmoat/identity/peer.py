"""Who connected to a Unix socket: a uid, still alive, in an expected cgroup.

How much of it can be known depends on the kernel; `Means` says, and is found out once. Before
Linux 6.13 the cgroup is known from /proc only: a reader without one (a sidecar, in its empty root)
asks for none, and what is left is the uid, the mount that shows the socket to one sandbox alone,
and a token that is of no use elsewhere.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
import struct
from collections.abc import Callable
from enum import Enum
from typing import TypeVar, assert_never

from attrs import frozen

from gitmoat.identity import peer_proc

T = TypeVar("T")

_SO_PEERPIDFD = 77
_PIDFD_INFO_PID, _PIDFD_INFO_CREDS, _PIDFD_INFO_CGROUPID = 1, 2, 4
_INFO_WANTED = _PIDFD_INFO_PID | _PIDFD_INFO_CREDS | _PIDFD_INFO_CGROUPID
_INFO_SIZE = 64  # struct pidfd_info as of Linux 6.13
_PIDFD_GET_INFO = (3 << 30) | (_INFO_SIZE << 16) | (0xFF << 8) | 11


class Means(Enum):
    """What the kernel says about a peer."""

    INFO = "info"  # 6.13: PIDFD_GET_INFO: alive, still of that uid, in which cgroup
    PIDFD = "pidfd"  # 6.5: SO_PEERPIDFD: alive
    CREDENTIALS = "credentials"  # before: SO_PEERCRED: who it was when it connected


@frozen
class AttestedPeer:
    """Made by `attest` only, so that a function that takes one need not check."""

    pid: int
    uid: int
    gid: int
    cgroup: int | None


@frozen
class _Info:
    cgroup: int
    tgid: int
    ruid: int
    euid: int


class NotAttested(Exception):
    """The peer is not one we serve."""

    def __init__(self, what: str, code: str, uid: int) -> None:
        super().__init__(what)
        self.what = what
        self.code = code
        self.uid = uid


def attest(
    sock: socket.socket,
    uids: frozenset[int],
    cgroups: frozenset[int] | None,
    means: Means = Means.INFO,
) -> AttestedPeer:
    """The peer of a connected Unix socket, if it is of `uids`, alive, and in one of `cgroups`
    (None: in any). With `Means.INFO`: getsockopt, ioctl, poll and close only; reads no file."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid, uid, gid = struct.unpack("=iII", raw)
    if uid not in uids:
        raise NotAttested("this uid is not served", "H101", uid)
    try:
        cgroup = _live_cgroup(sock, pid, uid, cgroups is not None, means)
    except OSError as problem:
        raise NotAttested("the peer has gone", "H102", uid) from problem
    if cgroups is not None and cgroup not in cgroups:
        raise NotAttested("the peer is in an unexpected cgroup", "H102", uid)
    return AttestedPeer(pid, uid, gid, cgroup)


@frozen
class Attestation:
    """Whom a socket serves."""

    uids: frozenset[int]
    cgroups: frozenset[int] | None
    means: Means

    def attest(self, sock: socket.socket) -> AttestedPeer:
        return attest(sock, self.uids, self.cgroups, self.means)


def _live_cgroup(sock: socket.socket, pid: int, uid: int, wanted: bool, means: Means) -> int | None:
    """OSError when the peer has gone; None when its cgroup is not `wanted` and not known."""
    match means:
        case Means.INFO:
            return _of_same_uid(_ask(sock, _info), pid, uid).cgroup
        case Means.PIDFD:
            return _ask(sock, lambda _: peer_proc.cgroup_of(pid) if wanted else None)
        case Means.CREDENTIALS:
            return peer_proc.cgroup_of_same(pid) if wanted else None
        case _:
            assert_never(means)


def _of_same_uid(info: _Info, pid: int, uid: int) -> _Info:
    # unix(7): SO_PEERCRED has the credentials of connect(). A peer that has changed its uid since,
    # or whose pid names another process now, is not the one that was let in.
    if (info.tgid, info.ruid, info.euid) != (pid, uid, uid):
        raise NotAttested("the peer is no longer who connected", "H102", uid)
    return info


def _peer_pidfd(sock: socket.socket) -> int:
    pidfd: int = struct.unpack("=i", sock.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD, 4))[0]
    return pidfd


def _ask(sock: socket.socket, question: Callable[[int], T]) -> T:
    """`question(pidfd)`, answered about a process that was alive when it had been answered."""
    pidfd = _peer_pidfd(sock)
    try:
        answer = question(pidfd)
        if _exited(pidfd):
            raise ProcessLookupError
        return answer
    finally:
        os.close(pidfd)


def _info(pidfd: int) -> _Info:
    answer = bytearray(_INFO_SIZE)
    struct.pack_into("=Q", answer, 0, _INFO_WANTED)
    fcntl.ioctl(pidfd, _PIDFD_GET_INFO, answer, True)
    mask, cgroup, _pid, tgid, _ppid, ruid, _rgid, euid = struct.unpack_from("=QQIIIIII", answer)
    if mask & _INFO_WANTED != _INFO_WANTED:
        raise ProcessLookupError
    return _Info(cgroup, tgid, ruid, euid)


def _exited(pidfd: int) -> bool:
    """A pidfd is readable from the process's end on, also while it is a zombie (pidfd_open(2))."""
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(0))


def find_means(
    peer_pidfd: Callable[[socket.socket], int] = _peer_pidfd,
    info: Callable[[int], object] = _info,
) -> Means:
    """Tried on ourselves; never guessed from a failure while somebody waits to be let in."""
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        try:
            pidfd = peer_pidfd(ours)
        except OSError:
            return Means.CREDENTIALS
    try:
        info(pidfd)
    except OSError:
        return Means.PIDFD
    finally:
        os.close(pidfd)
    return Means.INFO

"""Who connected to a Unix socket: a uid, still alive, in an expected cgroup."""

from __future__ import annotations

import fcntl
import os
import select
import socket
import struct

from attrs import frozen

_SO_PEERPIDFD = 77
_PIDFD_INFO_PID, _PIDFD_INFO_CREDS, _PIDFD_INFO_CGROUPID = 1, 2, 4
_INFO_WANTED = _PIDFD_INFO_PID | _PIDFD_INFO_CREDS | _PIDFD_INFO_CGROUPID
_INFO_SIZE = 64  # struct pidfd_info as of Linux 6.13
_PIDFD_GET_INFO = (3 << 30) | (_INFO_SIZE << 16) | (0xFF << 8) | 11


@frozen
class AttestedPeer:
    """Made by `attest` only: whoever holds one has checked."""

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
    sock: socket.socket, uids: frozenset[int], cgroups: frozenset[int] | None
) -> AttestedPeer:
    """The peer of a connected Unix socket, if it is of `uids`, alive, and in one of `cgroups`
    (None: in any). Uses getsockopt, ioctl, poll and close only; reads no file."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid, uid, gid = struct.unpack("=iII", raw)
    if uid not in uids:
        raise NotAttested("this uid is not served", "H101", uid)
    info = _live_info(sock, uid)
    # The credentials date from connect(): a peer that has since become somebody else, or
    # whose pid names another process, is not the one that was let in.
    if (info.tgid, info.ruid, info.euid) != (pid, uid, uid):
        raise NotAttested("the peer is no longer who connected", "H102", uid)
    if cgroups is not None and info.cgroup not in cgroups:
        raise NotAttested("the peer is in an unexpected cgroup", "H102", uid)
    return AttestedPeer(pid, uid, gid, info.cgroup)


def _live_info(sock: socket.socket, uid: int) -> _Info:
    try:
        raw = sock.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD, 4)
    except OSError as problem:
        raise NotAttested("the peer has gone", "H102", uid) from problem
    pidfd: int = struct.unpack("=i", raw)[0]
    try:
        info = _info(pidfd)
        if _exited(pidfd):  # asked last, so that what was read belonged to a live process
            raise ProcessLookupError
    except OSError as problem:
        raise NotAttested("the peer has gone", "H102", uid) from problem
    finally:
        os.close(pidfd)
    return info


def _info(pidfd: int) -> _Info:
    answer = bytearray(_INFO_SIZE)
    struct.pack_into("=Q", answer, 0, _INFO_WANTED)
    fcntl.ioctl(pidfd, _PIDFD_GET_INFO, answer, True)
    mask, cgroup, _pid, tgid, _ppid, ruid, _rgid, euid = struct.unpack_from("=QQIIIIII", answer)
    if mask & _INFO_WANTED != _INFO_WANTED:
        raise ProcessLookupError
    return _Info(cgroup, tgid, ruid, euid)


def _exited(pidfd: int) -> bool:
    """A pidfd becomes readable at exit, also while the process is an unreaped zombie."""
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(0))

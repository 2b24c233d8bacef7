"""Control sockets: where they may be, who may own them, and who answers on them."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import struct
from pathlib import Path

from gitmoat.identity.control_errors import (
    ControlSocketAbsent,
    ControlSocketBusy,
    ControlSocketDenied,
    ControlSocketError,
    ControlSocketUnsafe,
)
from gitmoat.identity.directories import make_private_directory, open_private_directory, plain_names

__all__ = [
    "ControlSocketError",
    "ControlSocketUnsafe",
    "ControlSocketDenied",
    "ControlSocketAbsent",
    "ControlSocketBusy",
    "listen_control",
    "connect_control",
    "make_private_directory",
    "peer_uid",
]

PATH_LIMIT = 100  # bytes; sun_path takes 108 (unix(7))
_BACKLOG = 64
_CONNECT_SECONDS = 5.0


def listen_control(
    path: str | Path,
    uid: int = 0,
    mode: int = 0o600,
    *,
    root: str | Path = "/",
    kind: int = socket.SOCK_STREAM,
) -> socket.socket:
    """A listening, non-blocking socket at `path`, in a directory that only `uid` can write to.

    Symlinks are refused below `root`; a stale socket is removed only when nobody answers.
    """
    where = _usable(path, root)
    try:
        folder = _folder_of(where, uid, root)
    except FileNotFoundError as problem:
        raise ControlSocketUnsafe(f"{where}: its directory does not exist") from problem
    try:
        _lock(folder, where)
        _remove_stale(folder, where, uid, kind)
        return _bind(folder, where, uid, mode, kind)
    finally:
        os.close(folder)


def remove_stale_control(path: str | Path, uid: int = 0, *, root: str | Path = "/") -> None:
    """Removes what a daemon that gave up root could not remove; one that answers stays."""
    where = _usable(path, root)
    try:
        folder = _folder_of(where, uid, root)
    except FileNotFoundError:
        return
    try:
        _lock(folder, where)
        _remove_stale(folder, where, uid, socket.SOCK_STREAM)
    except ControlSocketBusy:
        pass
    finally:
        os.close(folder)


def connect_control(
    path: str | Path,
    server_uid: int,
    *,
    root: str | Path = "/",
    kind: int = socket.SOCK_STREAM,
) -> socket.socket:
    """A blocking connection to the server of `server_uid` at `path`; path and server checked."""
    where = _usable(path, root)
    try:
        folder = _folder_of(where, server_uid, root)
    except FileNotFoundError as problem:
        raise _absent(where) from problem
    try:
        _check_socket(folder, where, server_uid)
    finally:
        os.close(folder)
    return _connect(where, server_uid, kind)


def peer_uid(sock: socket.socket) -> int:
    """The uid at the other end of a Unix socket, as it was at connect() or listen()."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    uid: int = struct.unpack("=iII", raw)[1]
    return uid


def _usable(path: str | Path, root: str | Path) -> str:
    where = os.fspath(path)
    plain_names(where, root)
    if len(os.fsencode(where)) >= PATH_LIMIT:
        raise ControlSocketUnsafe(
            f"{where}: a socket path must be shorter than {PATH_LIMIT} bytes", "use a shorter root"
        )
    return where


def _folder_of(where: str, uid: int, root: str | Path) -> int:
    return open_private_directory(where.rpartition("/")[0], uid, root)


def _name_of(where: str) -> str:
    return where.rpartition("/")[2]


def _absent(where: str) -> ControlSocketAbsent:
    return ControlSocketAbsent(f"nobody listens on {where}", "start it with: hostctl up")


def _lock(folder: int, where: str) -> None:
    """Two starters must not both find the same socket stale; freed when listen_control ends."""
    real = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    os.dup2(real, folder, inheritable=False)
    os.close(real)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as problem:
        raise ControlSocketBusy(f"{where}: another start is under way", "try again") from problem


def _check_socket(folder: int, where: str, uid: int) -> None:
    try:
        found = os.stat(_name_of(where), dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError as problem:
        raise _absent(where) from problem
    except PermissionError as problem:
        raise ControlSocketDenied(f"{where}: not permitted", "run as root") from problem
    if not stat.S_ISSOCK(found.st_mode):
        raise ControlSocketUnsafe(f"{where} is not a socket", f"look at {where} and remove it")
    if found.st_uid != uid:
        raise ControlSocketUnsafe(
            f"{where} belongs to uid {found.st_uid}, not {uid}", f"look at {where} and remove it"
        )


def _remove_stale(folder: int, where: str, uid: int, kind: int) -> None:
    try:
        _check_socket(folder, where, uid)
        _connect(where, None, kind).close()
    except ControlSocketAbsent:
        _unlink(folder, where)
    else:
        raise ControlSocketBusy(f"{where}: somebody already listens there", "stop it first")


def _unlink(folder: int, where: str) -> None:
    try:
        os.unlink(_name_of(where), dir_fd=folder)
    except FileNotFoundError:
        pass


def _bind(folder: int, where: str, uid: int, mode: int, kind: int) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, kind)
    try:
        # bind() takes the file's mode from the socket, so it is never wider than `mode`,
        # and before listen() nobody can connect.
        os.fchmod(listener.fileno(), mode)
        listener.bind(where)
        os.chmod(_name_of(where), mode, dir_fd=folder)
        if uid != os.geteuid():
            os.chown(_name_of(where), uid, -1, dir_fd=folder, follow_symlinks=False)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as problem:
        listener.close()
        raise ControlSocketUnsafe(f"{where}: {problem.strerror}") from problem
    return listener


def _connect(where: str, server_uid: int | None, kind: int) -> socket.socket:
    client = socket.socket(socket.AF_UNIX, kind)
    try:
        _dial(client, where)
        if server_uid is not None and peer_uid(client) != server_uid:
            raise ControlSocketUnsafe(
                f"the server at {where} is uid {peer_uid(client)}, not {server_uid}",
                "another program has taken its place: find out which",
            )
    except ControlSocketError:
        client.close()
        raise
    return client


def _dial(client: socket.socket, where: str) -> None:
    client.settimeout(_CONNECT_SECONDS)
    try:
        client.connect(where)
    except (FileNotFoundError, ConnectionRefusedError) as problem:
        raise _absent(where) from problem
    except PermissionError as problem:
        raise ControlSocketDenied(f"{where}: not permitted", "run as root") from problem
    except OSError as problem:  # a full backlog, another kind of socket: alive, but not for us
        raise ControlSocketBusy(f"{where}: {problem.strerror or 'no answer'}") from problem
    client.settimeout(None)

"""Asking the sidecar: git's credential-cache protocol over the credential socket."""

import _socket  # `socket` alone would double the start-up time of every git operation
import sys

SOCKET = "/run/gitmoat/cred.sock"
ANSWER_LIMIT = 4 * 1024
_SECONDS = 10
# A struct timeval where a long has eight octets.
_TIMEVAL = _SECONDS.to_bytes(8, sys.byteorder) + bytes(8)


class NoAnswer(Exception):
    """The sidecar could not be asked; `what` says why."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


def ask(request: bytes, path: str = SOCKET, server_uid: int | None = None) -> bytes:
    """Send a whole request, return the whole answer; the server must be `server_uid` if given."""
    client = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        # Blocking: while the backlog is full connect(2) waits for its turn. A socket with Python's
        # own time-out is non-blocking and would be refused at once (EAGAIN, unix(7)).
        client.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDTIMEO, _TIMEVAL)
        client.connect(path)
        client.settimeout(_SECONDS)
        _check_server(client, server_uid)
        return _exchange(client, request)
    except (TimeoutError, BlockingIOError):
        raise NoAnswer("the sidecar does not answer") from None
    except OSError as problem:
        raise NoAnswer(f"the sidecar cannot be reached: {problem.strerror}") from None
    finally:
        client.close()


def _check_server(client: _socket.socket, server_uid: int | None) -> None:
    """Nothing is sent to, and nothing believed from, a server of another uid."""
    raw = client.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    uid = int.from_bytes(raw[4:8], sys.byteorder)
    if server_uid is not None and uid != server_uid:
        raise NoAnswer("the credential socket is served by another uid")


def _exchange(client: _socket.socket, request: bytes) -> bytes:
    rest = memoryview(request)
    while rest:
        rest = rest[client.send(rest) :]
    client.shutdown(_socket.SHUT_WR)
    answer = b""
    while piece := client.recv(ANSWER_LIMIT + 1 - len(answer)):
        answer += piece
        if len(answer) > ANSWER_LIMIT:
            raise NoAnswer("the sidecar's answer is too long")
    return answer

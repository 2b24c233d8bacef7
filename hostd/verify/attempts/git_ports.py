"""Attempts on the sidecar's git ports and its credential socket."""

from __future__ import annotations

import base64
import socket
from collections.abc import Callable, Mapping

from hostd.verify.attempts.refused import Refused

_TIMEOUT = 15.0
_MOST = 1 << 16
_SOCKET = "/run/gitmoat/cred.sock"
_NO_OBJECT = "0" * 40
# There is no such object: a server that got the command would refuse it as well.
_NOWHERE = "1" * 40
# A pack without objects: version 2, and the SHA-1 of its twelve bytes (gitformat-pack(5)).
_EMPTY_PACK = b"PACK\0\0\0\2\0\0\0\0" + bytes.fromhex("029d08823bd8a8eab510ad6ac75c823cfd3ed31e")


def _ask_credential(path: str) -> str | None:
    question = f"action=get\nprotocol=http\nhost=127.0.0.1:418\npath={path}\n"
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(_TIMEOUT)
        client.connect(_SOCKET)
        try:
            client.sendall(question.encode())
            client.shutdown(socket.SHUT_WR)
            answer = _read_all(client)
        except (BrokenPipeError, ConnectionResetError):
            return None
    lines = answer.decode("latin-1").splitlines()
    passwords = [line.partition("=")[2] for line in lines if line.startswith("password=")]
    return passwords[0] if passwords else None


def _read_all(client: socket.socket) -> bytes:
    answer = b""
    while len(answer) < _MOST and (piece := client.recv(4096)):
        answer += piece
    return answer


def _credential(path: str) -> str:
    if _ask_credential(path) is None:
        raise Refused("no token")
    return "a token"


def _request(port: int, line: str, path: str | None, body: bytes = b"") -> bytes:
    """A whole answer. `path` names the repository whose token goes with it."""
    token = None if path is None else _ask_credential(path)
    head = (
        f"{line} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUser-Agent: git/2\r\nConnection: close\r\n"
    )
    if token is not None:
        pair = base64.b64encode(f"gitmoat:{token}".encode()).decode()
        head += f"Authorization: Basic {pair}\r\n"
    if body:
        head += "Content-Type: application/x-git-receive-pack-request\r\n"
        head += f"Content-Length: {len(body)}\r\n"
    with socket.socket() as client:
        client.settimeout(_TIMEOUT)
        client.connect(("127.0.0.1", port))
        client.sendall(head.encode() + b"\r\n" + body)
        return _read_all(client)


def _status(answer: bytes) -> int:
    words = answer.split(b" ", 2)
    if len(words) < 2 or not words[1].isdigit():
        raise Refused("closed")
    return int(words[1])


def _repository(port: int, path: str, with_token: bool) -> str:
    line = f"GET /{path}/info/refs?service=git-upload-pack"
    status = _status(_request(port, line, path if with_token else None))
    if status != 200:
        raise Refused(f"HTTP {status}")
    return "HTTP 200"


def _push(port: int, path: str, ref: str, with_token: bool) -> str:
    """Creates a ref with an object that does not exist."""
    command = f"{_NO_OBJECT} {_NOWHERE} {ref}\0report-status".encode()
    body = b"%04x" % (len(command) + 4) + command + b"0000" + _EMPTY_PACK
    line = f"POST /{path}/git-receive-pack"
    answer = _request(port, line, path if with_token else None, body)
    status = _status(answer)
    if status != 200:
        raise Refused(f"HTTP {status}")
    if b"(G2" not in answer:
        return "the broker let it pass"
    raise Refused("ng, by the broker")


ATTEMPTS: Mapping[str, Callable[..., str]] = {
    "credential": _credential,
    "repository": _repository,
    "push": _push,
}

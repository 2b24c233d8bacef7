"""The end of an upload, and an answer that stalls: behind the upstream's nginx, on two ports.

Programs of few bytes of Python per megabyte: what is measured is in front of them.
"""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable

_END = b"0\r\n\r\n"
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-%b-result\r\nConnection: close\r\n"
_REPORT = b"000eunpack ok\n0017ok refs/heads/main\n0000"
_PACKET = b"fff0\x01" + bytes(65515)


def take(connection: socket.socket) -> None:
    """Reads a chunked body to its end, then says what git's receive-pack would."""
    buffer = memoryview(bytearray(1 << 20))
    tail = b""
    while not tail.endswith(_END):
        count = connection.recv_into(buffer)
        if not count:
            return
        tail = (tail + bytes(buffer[max(0, count - 8) : count]))[-8:]
    head = _HEAD % b"receive-pack" + b"Content-Length: %d\r\n\r\n" % len(_REPORT)
    connection.sendall(head + _REPORT)


def stall(connection: socket.socket) -> None:
    """Begins the answer to a fetch, and then says nothing until the client goes."""
    connection.recv(1 << 16)
    connection.sendall(_HEAD % b"upload-pack" + b"\r\n" + _PACKET * 64)
    connection.recv(1)


def _serve(port: int, answer: Callable[[socket.socket], None]) -> None:
    listener = socket.create_server(("127.0.0.1", port), backlog=64)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_one, args=(connection, answer), daemon=True).start()


def _one(connection: socket.socket, answer: Callable[[socket.socket], None]) -> None:
    with connection:
        try:
            answer(connection)
        except OSError:
            pass  # the client went first


if __name__ == "__main__":
    threading.Thread(target=_serve, args=(int(sys.argv[1]), take), daemon=True).start()
    _serve(int(sys.argv[2]), stall)

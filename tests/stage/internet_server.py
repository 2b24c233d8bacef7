"""The internet of a test, as one program in a network namespace of its own: DNS, HTTP and TLS.

Every question, connection and request is a line of JSON in the log. Arguments: the log, the
directory to serve, certificate and key, and a JSON object of names and their addresses.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import socket
import ssl
import sys
import threading
from pathlib import Path
from typing import Any

LOG, WWW, CERTIFICATE, KEY, NAMES = sys.argv[1:6]
ADDRESSES: dict[str, str] = json.loads(NAMES)
_lock = threading.Lock()


def note(**fields: Any) -> None:
    with _lock, Path(LOG).open("a", encoding="utf-8") as log:
        log.write(json.dumps(fields) + "\n")


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, directory=WWW, **named)

    def _note(self) -> None:
        port = self.connection.getsockname()[1]
        host = self.headers.get("Host")
        note(kind="request", method=self.command, path=self.path, host=host, port=port)

    def do_GET(self) -> None:
        self._note()
        if self.path.startswith("/endless"):
            self._endless()
        elif self.path.startswith("/dns-query"):
            self._answer(b"not DNS", "application/dns-message")
        else:
            super().do_GET()

    def do_HEAD(self) -> None:
        self._note()
        super().do_HEAD()

    def do_POST(self) -> None:
        self._note()
        self._answer(self.rfile.read(int(self.headers.get("Content-Length", "0"))), "text/plain")

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _endless(self) -> None:
        """Something every now and then, until the client goes."""
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with contextlib.suppress(OSError):
            while True:
                self.wfile.write(b"5\r\ntick\n\r\n")
                threading.Event().wait(0.2)
        note(kind="cut", path=self.path)

    def log_message(self, *args: Any) -> None:
        """The log is our own."""


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], context: ssl.SSLContext | None) -> None:
        self._context = context
        super().__init__(address, Handler)

    def get_request(self) -> tuple[Any, Any]:
        connection, client = super().get_request()
        note(kind="connection", to=self.server_address[0], port=self.server_address[1])
        return connection, client

    def finish_request(self, request: Any, client: Any) -> None:
        if self._context is None:
            super().finish_request(request, client)
            return
        with (
            contextlib.suppress(OSError),
            self._context.wrap_socket(request, server_side=True) as s,
        ):
            super().finish_request(s, client)


def serve_dns(address: str) -> None:
    """One kind of record; what it does not know does not exist."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((address, 53))
    while True:
        data, client = server.recvfrom(4096)
        labels, at = [], 12
        while data[at]:
            labels.append(data[at + 1 : at + 1 + data[at]].decode())
            at += 1 + data[at]
        name, kind = ".".join(labels).lower(), int.from_bytes(data[at + 1 : at + 3])
        note(kind="question", name=name, type=kind)
        found = ADDRESSES.get(name) if kind == 1 else None
        flags = b"\x81\x80" if name in ADDRESSES else b"\x81\x83"
        head = data[:2] + flags + b"\0\1" + (b"\0\1" if found else b"\0\0") + b"\0\0\0\0"
        answer = head + data[12 : at + 5]
        if found:
            answer += b"\xc0\x0c\0\1\0\1\0\0\0\1\0\4" + socket.inet_aton(found)
        server.sendto(answer, client)


def main() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE, KEY)
    dns, *addresses = sorted({*ADDRESSES.values()}, key=lambda each: not each.endswith(".53"))
    places = [(each, port, tls) for each in addresses for port, tls in _PORTS]
    for address, port, tls in places:
        with contextlib.suppress(OSError):  # an address that is not ours: somebody's private one
            server = Server((address, port), context if tls else None)
            threading.Thread(target=server.serve_forever, daemon=True).start()
    threading.Thread(target=serve_dns, args=(dns,), daemon=True).start()
    print("ready", flush=True)
    threading.Event().wait()


_PORTS = ((443, True), (8443, True), (80, False), (22, False))

if __name__ == "__main__":
    main()

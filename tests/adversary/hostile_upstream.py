"""A git server that the owner configured, and that turned against the sandbox and its gate."""

from __future__ import annotations

import gzip
import ssl
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from attrs import frozen

ADVERTISEMENT = "application/x-git-upload-pack-advertisement"
ESCAPE = b"\x1b]0;owned\x07\x1b[2J"
OID = b"12" * 20
BOMB = gzip.compress(bytes(200 << 20))


@frozen
class Asked:
    """`authorization` says only whether there was one."""

    path: str
    authorization: bool


def pkt(data: bytes) -> bytes:
    return b"%04x" % (len(data) + 4) + data


def refs(count: int) -> bytes:
    """A protocol version 0 advertisement of this many branches."""
    lines = [pkt(b"# service=git-upload-pack\n"), b"0000"]
    lines.append(pkt(OID + b" refs/heads/b0\0side-band-64k ofs-delta\n"))
    lines += [pkt(OID + b" refs/heads/b%d\n" % number) for number in range(1, count)]
    return b"".join(lines) + b"0000"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: HostileUpstream

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self.server.asked.append(Asked(self.path, "Authorization" in self.headers))
        name = self.path.split("/")[2].removesuffix(".git")
        answer: Callable[[], None] = getattr(self, f"answer_{name}", self.answer_nothing)
        try:
            answer()
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""

    def say(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Transfer_Encoding" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def answer_nothing(self) -> None:
        self.say(404, b"")

    def answer_redirect(self) -> None:
        target = (
            f"https://localhost:{self.server.port}/stolen/x.git{self.path.partition('.git')[2]}"
        )
        self.say(302, b"", Location=target)

    def answer_unauthorised(self) -> None:
        self.say(401, ESCAPE, WWW_Authenticate='Basic realm="give me more"')

    def answer_html(self) -> None:
        self.say(200, b"<html>" + ESCAPE, Content_Type="text/html")

    def answer_compressed(self) -> None:
        self.say(200, BOMB, Content_Type=ADVERTISEMENT, Content_Encoding="gzip")

    def answer_error(self) -> None:
        self.say(500, ESCAPE * 1000, Content_Type="text/plain")

    def answer_spoken(self) -> None:
        """An ERR line, which git prints as it is."""
        body = pkt(b"# service=git-upload-pack\n") + b"0000" + pkt(b"ERR " + ESCAPE + b"\n")
        self.say(200, body, Content_Type=ADVERTISEMENT)

    def answer_many(self) -> None:
        self.say(200, refs(100_000), Content_Type=ADVERTISEMENT)

    def answer_broken(self) -> None:
        self.say(200, b"zzzz" + ESCAPE, Content_Type=ADVERTISEMENT)

    def answer_climbing(self) -> None:
        """Names that no ref may have, and one that would be an option."""
        names = (
            b"refs/heads/../../../x",
            b"refs/heads/--upload-pack=x",
            b"refs/heads/a b",
            b"HEAD",
        )
        lines = b"".join(pkt(OID + b" " + name + b"\n") for name in names)
        first = pkt(b"# service=git-upload-pack\n") + b"0000"
        self.say(200, first + lines + b"0000", Content_Type=ADVERTISEMENT)

    def answer_drip(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", ADVERTISEMENT)
        self.send_header("Content-Length", "1000000")
        self.end_headers()
        for octet in refs(1000):
            self.wfile.write(bytes([octet]))
            self.wfile.flush()
            time.sleep(0.5)

    def answer_silent(self) -> None:
        time.sleep(600)


class HostileUpstream(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, tls: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[Asked] = []
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(tls / "cert.pem", tls / "key.pem")
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def finish_request(self, request: object, client_address: object) -> None:
        with self._tls.wrap_socket(request, server_side=True) as secure:  # type: ignore[arg-type]
            super().finish_request(secure, client_address)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that leaves is what the test is about."""

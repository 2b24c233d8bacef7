"""python -m tests.stage.git_server DIRECTORY USER: `git http-backend` over TLS, for one password.

The password is the first line of stdin; the server ends with stdin. Below the directory are
`repositories` (bare ones), `tls` (certificates, made if they are not there), `access.ndjson` (what
was asked, never a password) and `port`, written when it listens. Bodies stream both ways.
"""

from __future__ import annotations

import hmac
import json
import os
import ssl
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO

import trustme

_PIECE = 1 << 16
_LINE_LIMIT = 8192
_HANDSHAKE_SECONDS = 30
_IDLE_SECONDS = 120


class GitServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, directory: Path, authorization: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.repositories = directory / "repositories"
        self.authorization = authorization
        self._log = directory / "access.ndjson"
        self._log_lock = threading.Lock()
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.minimum_version = ssl.TLSVersion.TLSv1_2
        self._tls.load_cert_chain(directory / "tls" / "cert.pem", directory / "tls" / "key.pem")

    def finish_request(self, request: object, client_address: object) -> None:
        """Runs in the connection's own thread, so a slow handshake holds nobody up."""
        request.settimeout(_HANDSHAKE_SECONDS)  # type: ignore[attr-defined]
        with self._tls.wrap_socket(request, server_side=True) as secure:  # type: ignore[arg-type]
            secure.settimeout(_IDLE_SECONDS)
            super().finish_request(secure, client_address)

    def handle_error(self, request: object, client_address: object) -> None:
        """Refused handshakes and clients that leave are not worth a word."""

    def note(self, request_line: str, status: int, authorization: bool) -> None:
        entry = {"request": request_line, "status": status, "authorization": authorization}
        with self._log_lock, self._log.open("a", encoding="utf-8") as log:
            log.write(json.dumps(entry) + "\n")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: GitServer

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def log_message(self, format: str, *args: object) -> None:
        """The access log is written by `note`."""

    def _serve(self) -> None:
        given = self.headers.get("Authorization", "")
        if not hmac.compare_digest(given.encode(), self.server.authorization.encode()):
            self._refuse()
            return
        with subprocess.Popen(
            ["git", "http-backend"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self._environment(),
        ) as backend:
            assert backend.stdin is not None and backend.stdout is not None
            feeder = threading.Thread(target=self._feed, args=(backend.stdin,), daemon=True)
            feeder.start()
            try:
                self._answer(backend.stdout)
            except OSError:  # the client left
                self.close_connection = True
                backend.kill()
            feeder.join(_IDLE_SECONDS)

    def _refuse(self) -> None:
        self.close_connection = True
        self._note(401)
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="git"')
        self.send_header("Content-Length", "0")
        self.send_header("Connection", "close")
        self.end_headers()

    def _note(self, status: int) -> None:
        self.server.note(self.requestline, status, "Authorization" in self.headers)

    def _environment(self) -> dict[str, str]:
        path, _, query = self.path.partition("?")
        protocol = self.headers.get("Git-Protocol", "")
        environment = {
            "PATH": "/usr/bin:/bin",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_PROJECT_ROOT": str(self.server.repositories),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": protocol,
            "HTTP_GIT_PROTOCOL": protocol,
            "REMOTE_USER": "test",  # http-backend allows pushes to whom the web server knows
            "REMOTE_ADDR": "127.0.0.1",
        }
        length = self.headers.get("Content-Length")
        return {**environment, "CONTENT_LENGTH": length} if length else environment

    def _feed(self, stdin: IO[bytes]) -> None:
        try:
            for piece in self._body():
                stdin.write(piece)
        except (OSError, ValueError):  # one of the two ends is gone: no second request here
            self.close_connection = True
        finally:
            try:
                stdin.close()
            except OSError:
                pass

    def _body(self) -> Iterator[bytes]:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            while size := int(self.rfile.readline(_LINE_LIMIT).split(b";")[0], 16):
                yield from self._exactly(size)
                self.rfile.readline(_LINE_LIMIT)
            self.rfile.readline(_LINE_LIMIT)
        else:
            yield from self._exactly(int(self.headers.get("Content-Length", "0")))

    def _exactly(self, left: int) -> Iterator[bytes]:
        while left:
            piece = self.rfile.read1(min(left, _PIECE))
            if not piece:
                raise OSError("the client left")
            left -= len(piece)
            yield piece

    def _answer(self, stdout: IO[bytes]) -> None:
        status, headers = _cgi_head(stdout)
        self._note(status)
        self.send_response(status)
        for name, value in [*headers, ("Transfer-Encoding", "chunked")]:
            self.send_header(name, value)
        self.end_headers()
        while piece := stdout.read1(_PIECE):  # type: ignore[attr-defined]
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")


def _cgi_head(stdout: IO[bytes]) -> tuple[int, list[tuple[str, str]]]:
    status, headers = 200, []
    while line := stdout.readline(_LINE_LIMIT).decode("latin-1").strip():
        name, _, value = line.partition(":")
        if name.lower() == "status":
            status = int(value.split()[0])
        elif name.lower() != "content-length":
            headers.append((name, value.strip()))
    return status, headers


def _make_certificates(folder: Path) -> None:
    folder.mkdir(mode=0o755)
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1", "::1")
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    issued.private_key_pem.write_to_path(str(folder / "key.pem"))
    (folder / "cert.pem").write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))


def _end_with_stdin() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


def main() -> None:
    directory, user = Path(sys.argv[1]), sys.argv[2]
    password = sys.stdin.buffer.readline().removesuffix(b"\n")
    if not (directory / "tls").exists():
        _make_certificates(directory / "tls")
    known = b64encode(user.encode() + b":" + password).decode("ascii")
    server = GitServer(directory, f"Basic {known}")
    (directory / "port.new").write_text(f"{server.server_address[1]}\n", encoding="ascii")
    (directory / "port.new").rename(directory / "port")
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    server.serve_forever()


if __name__ == "__main__":
    main()

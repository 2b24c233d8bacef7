"""The demo's git server: bare repositories, served over TLS to clients that have the password.

`git http-backend` behind Basic auth, in a process of its own that `hostctl demo --keep` leaves
behind. The password goes in by a pipe, never by argv or environment; the log says only whether an
Authorization header was there.
"""

from __future__ import annotations

import hmac
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from hostctl.setup.daemons import clean_environment

_LONGEST_LINE = 8192
_IDLE_SECONDS = 120
_LIFETIME = timedelta(days=2)
_GIT = shutil.which("git", path="/usr/bin:/bin") or "git"
_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
}


def basic(user: str, password: str) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode("ascii")


class Upstream:
    """Starts and stops the server; `stay`: it outlives the process that started it."""

    def __init__(
        self, directory: Path, password: str, user: str = "x-access-token", stay: bool = False
    ) -> None:
        self.directory = directory
        self.repositories = directory / "repositories"
        self.certificate = directory / "cert.pem"
        self.key = directory / "key.pem"
        self.user = user
        self.port = 0
        self._password = password
        self._stay = stay
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    def start(self) -> None:
        self.repositories.mkdir(mode=0o755, parents=True)
        _make_certificate(self.certificate, self.key)
        settings = {"authorization": basic(self.user, self._password), "stay": self._stay}
        command = (sys.executable, "-P", "-m", "hostctl.demo.git_server")
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = int(listener.getsockname()[1])
            self._process = subprocess.Popen(
                [*command, str(listener.fileno()), str(self.directory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=(listener.fileno(),),
                env=clean_environment(),
                cwd="/",
                start_new_session=True,
            )
        assert self._process.stdin is not None  # noqa: S101 -- PIPE above
        self._process.stdin.write(json.dumps(settings).encode() + b"\n")
        self._process.stdin.flush()

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.communicate()
            self._process = None

    def log(self) -> list[str]:
        """What reached the server so far: status, `authorized` or `anonymous`, request line."""
        log = self.directory / "access.log"
        return log.read_text(encoding="utf-8").splitlines() if log.exists() else []

    def create_repository(self, name: str, files: Mapping[str, bytes]) -> str:
        """Makes `name`.git with one commit of these files on main; returns the commit's id."""
        bare = self.repositories / f"{name}.git"
        bare.parent.mkdir(exist_ok=True)
        _git("init", "--quiet", "--bare", "--initial-branch=main", str(bare))
        _git("--git-dir", str(bare), "fast-import", "--quiet", stdin=_import_stream(files))
        return self.ref(name, "refs/heads/main") or ""

    def ref(self, name: str, ref: str) -> str | None:
        """The object that a ref of a repository points to; None when there is no such ref."""
        bare = self.repositories / f"{name}.git"
        found = _git("--git-dir", str(bare), "for-each-ref", "--format=%(objectname)", ref)
        return found or None


def _git(*words: str, stdin: bytes = b"") -> str:
    done = subprocess.run(
        [_GIT, *words], input=stdin, capture_output=True, env=_ENVIRONMENT, check=True, cwd="/"
    )
    return done.stdout.decode().strip()


def _import_stream(files: Mapping[str, bytes]) -> bytes:
    head = b"commit refs/heads/main\ncommitter Demo <demo@gitmoat.invalid> 1700000000 +0000\n"
    parts = [head, _data(b"First commit")]
    for path, content in files.items():
        parts.append(b"M 100644 inline %b\n" % path.encode() + _data(content))
    return b"".join(parts) + b"\ndone\n"


def _data(content: bytes) -> bytes:
    return b"data %d\n%b\n" % (len(content), content)


def _make_certificate(certificate: Path, key: Path) -> None:
    """A self-signed one: a client that is given it trusts this server alone."""
    # Not at the top: `hostctl demo --help` would load it.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    private = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")]), datetime.now(UTC)
    public = private.public_key()
    signed = (
        x509.CertificateBuilder(name, name, public, x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(private, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    certificate.write_bytes(signed.public_bytes(pem))
    key.touch(0o600)
    key.write_bytes(private.private_bytes(pem, *plain))


class _GitServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, listener: socket.socket, directory: Path, authorization: str) -> None:
        super().__init__(listener.getsockname(), _Handler, bind_and_activate=False)
        self.socket.close()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(directory / "cert.pem", directory / "key.pem")
        # Each connection shakes hands in a thread of its own, at its first read.
        self.socket = context.wrap_socket(listener, server_side=True, do_handshake_on_connect=False)
        self.directory = directory
        self.authorization = authorization
        self._lock = threading.Lock()

    def handle_error(self, request: object, client_address: object) -> None:
        """Refused handshakes and clients that leave are not reported."""

    def note(self, line: str) -> None:
        with self._lock, (self.directory / "access.log").open("a", encoding="utf-8") as log:
            log.write(line + "\n")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_SECONDS
    server: _GitServer

    def do_GET(self) -> None:
        given = self.headers.get("Authorization", "")
        if hmac.compare_digest(given.encode(), self.server.authorization.encode()):
            status, headers, body = self._ask_git()
        else:
            refused = [("WWW-Authenticate", 'Basic realm="demo"'), ("Connection", "close")]
            status, headers, body = 401, refused, b""
        who = "authorized" if given else "anonymous"
        self.server.note(f"{status} {who} {self.requestline}")
        self.send_response(status)
        for name, value in [*headers, ("Content-Length", str(len(body)))]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:
        """`note` writes the log."""

    def _ask_git(self) -> tuple[int, list[tuple[str, str]], bytes]:
        """What CGI gives and takes: git-http-backend(1), RFC 3875."""
        path, _, query = self.path.partition("?")
        environment = {
            **_ENVIRONMENT,
            "GIT_PROJECT_ROOT": str(self.server.directory / "repositories"),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REMOTE_USER": "demo",  # http-backend allows pushes to whom the web server knows
            "REMOTE_ADDR": "127.0.0.1",
        }
        body = b"".join(self._body())
        done = subprocess.run(
            [_GIT, "http-backend"], input=body, capture_output=True, env=environment, check=False
        )
        head, _, answer = done.stdout.partition(b"\r\n\r\n")
        pairs = [line.split(": ", 1) for line in head.decode("latin-1").splitlines()]
        status = next((value for name, value in pairs if name == "Status"), "200")
        kept = [(name, value) for name, value in pairs if name not in ("Status", "Content-Length")]
        return int(status.split()[0]), kept, answer

    def _body(self) -> Iterator[bytes]:
        stream = self.rfile
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            yield stream.read(int(self.headers.get("Content-Length", "0")))
            return
        while size := int(stream.readline(_LONGEST_LINE).split(b";")[0], 16):
            yield stream.read(size)
            stream.readline(_LONGEST_LINE)
        stream.readline(_LONGEST_LINE)


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


def main() -> None:
    settings = json.loads(sys.stdin.buffer.readline())
    listener = socket.socket(fileno=int(sys.argv[1]))
    server = _GitServer(listener, Path(sys.argv[2]), settings["authorization"])
    if not settings["stay"]:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    server.serve_forever()


if __name__ == "__main__":
    main()

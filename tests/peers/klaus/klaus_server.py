"""klaus, a git server of others in pure Python, on dulwich: over TLS, on a port of loopback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import end, eventually

# It knows a repository by its directory's name without a final `.git`.
_PROGRAM = """
import sys
from pathlib import Path
from klaus import make_app
from werkzeug.serving import make_server

repositories, certificate, key, port = map(Path, sys.argv[1:])
app = make_app(
    sorted(map(str, repositories.iterdir())), "", use_smarthttp=True, unauthenticated_push=True
)
server = make_server("127.0.0.1", 0, app, threaded=True, ssl_context=(certificate, key))
port.with_suffix(".new").write_text(str(server.port))
port.with_suffix(".new").rename(port)
server.serve_forever()
"""


@contextmanager
def serving(packages: Path, repositories: Path, tls: Path, place: Path) -> Iterator[int]:
    """A port."""
    port, log = place / "port", place / "log"
    with log.open("wb") as said:
        process = subprocess.Popen(
            [
                *(sys.executable, "-P", "-c", _PROGRAM, str(repositories)),
                *(str(tls / "cert.pem"), str(tls / "key.pem"), str(port)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            env={"PATH": os.defpath, "PYTHONPATH": str(packages), "LC_ALL": "C.UTF-8"},
            cwd="/",
        )

    def listening() -> bool:
        assert process.poll() is None, log.read_text()
        return port.exists()

    try:
        eventually(listening, "klaus that listens")
        yield int(port.read_text())
    finally:
        end(process)

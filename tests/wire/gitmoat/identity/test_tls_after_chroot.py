"""The sidecar makes its key with the file system gone: no file, no import, no descriptor."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.waiting import PATIENCE

CHILD = """
import os, resource, sys
from OpenSSL import SSL
from gitmoat.identity.tls_options import PinnedClient, PinnedServer
from gitmoat.identity.certificates import self_signed, key_of

def shake(client_seed, server_seed):
    client_key, server_key = (key_of(self_signed(s)[1]) for s in (client_seed, server_seed))
    client = PinnedClient(client_seed, lambda: frozenset([server_key])).connection()
    server = PinnedServer(server_seed, client_key.__eq__).connection()
    complete = set()
    for _ in range(6):
        for end, other in ((client, server), (server, client)):
            try:
                end.do_handshake()
                complete.add(end)
            except SSL.WantReadError:
                pass
            try:
                other.bio_write(end.bio_read(65536))
            except SSL.WantReadError:
                pass
    assert complete == {client, server}

if sys.argv[2] == "warm":
    shake(b"a" * 32, b"b" * 32)
os.chroot(sys.argv[1])
os.chdir("/")
seen = []
sys.addaudithook(lambda name, args: name in ("open", "import") and seen.append((name, args)))
resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
os.setuid(61001)
shake(os.urandom(32), os.urandom(32))
assert not seen, seen
os.write(1, b"done")
"""


def run_child(empty: Path, how: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", CHILD, str(empty), how],
        cwd=Path(__file__).parents[4],
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )


def test_keys_certificates_and_contexts_are_made_without_files_or_imports(tmp_path: Path) -> None:
    ended = run_child(tmp_path, "warm")
    assert (ended.stdout, ended.stderr) == (b"done", b"")


def test_even_without_a_first_handshake_beforehand(tmp_path: Path) -> None:
    ended = run_child(tmp_path, "cold")
    assert (ended.stdout, ended.stderr) == (b"done", b"")

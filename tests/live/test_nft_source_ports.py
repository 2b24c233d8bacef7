"""A connection that begins at a sidecar's port is a squatter's, wherever it goes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest

from tests.stage.nft_namespace import LOOPBACK, UNTR, Namespace

_CONNECT = """
import json, os, socket, sys
uid, target, ports = int(sys.argv[1]), int(sys.argv[2]), map(int, sys.argv[3:])
os.setgroups([]); os.setresgid(uid, uid, uid); os.setresuid(uid, uid, uid)
def attempt(port):
    with socket.socket() as s:
        s.settimeout(0.5)
        s.bind(("127.0.0.1", port))
        try:
            s.connect(("127.0.0.1", target))
        except OSError:
            return False
        return True
print(json.dumps([attempt(port) for port in ports]))
"""


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    made = Namespace().open()
    yield made
    made.close()


def test_it_reaches_not_even_its_own_server(namespace: Namespace) -> None:
    namespace.run("sh", "-c", "echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start")
    namespace.load()
    namespace.listen(UNTR, LOOPBACK, 8080)
    ports = ("9999", "418", "419", "53", "80", "443", "480", "9998")
    words = (sys.executable, "-IS", "-c", _CONNECT, str(UNTR), "8080", *ports)
    assert json.loads(namespace.run(*words)) == [True, *[False] * 6, True]

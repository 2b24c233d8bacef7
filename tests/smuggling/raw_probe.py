"""A probe that runs in a sandbox and says raw bytes to a port of its sidecar."""

from __future__ import annotations

import base64
from typing import Any

from tests.stage.boxes import Box

PORTS = {"untrusted": 419, "helper": 418}

# Reads {"port", "exchanges": [{"say": [base64...], "between", "until", "half_close"}]}, prints a
# list of {"heard": base64, "closed"}. `between` is waited for before each further piece is said,
# `until` ends an exchange that is not closed by the other side.
PROBE = r"""
import base64, json, socket, sys
from concurrent.futures import ThreadPoolExecutor

PATIENCE = 60.0


def talk(port, exchange):
    wanted = base64.b64decode(exchange.get("until", ""))
    between = base64.b64decode(exchange.get("between", ""))
    heard, closed = b"", False
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as sock:
        def hear(mark):
            nonlocal heard, closed
            while not closed and not (mark and mark in heard):
                try:
                    data = sock.recv(65536)
                except ConnectionResetError:
                    data = b""
                except TimeoutError:
                    return
                heard, closed = heard + data, not data

        for number, piece in enumerate(exchange["say"]):
            if number and between:
                hear(between)
            try:
                sock.sendall(base64.b64decode(piece))
            except OSError:
                break
        if exchange.get("half_close"):
            sock.shutdown(socket.SHUT_WR)
        hear(wanted)
    return {"heard": base64.b64encode(heard).decode(), "closed": closed}


question = json.load(sys.stdin)
# Side by side: whoever asks for much that is refused is answered more and more slowly.
with ThreadPoolExecutor(24) as pool:
    told = list(pool.map(lambda each: talk(question["port"], each), question["exchanges"]))
json.dump(told, sys.stdout)
"""

# Reads a path, prints what the credential socket answers for it.
ASK_TOKEN = r"""
import json, socket, sys

path = json.load(sys.stdin)
with socket.socket(socket.AF_UNIX) as sock:
    sock.connect("/run/gitmoat/cred.sock")
    sock.sendall(b"action=get\nprotocol=http\nhost=127.0.0.1:418\npath=%b\n" % path.encode())
    sock.shutdown(socket.SHUT_WR)
    answer = b"".join(iter(lambda: sock.recv(4096), b"")).decode()
json.dump(dict(line.split("=", 1) for line in answer.splitlines()), sys.stdout)
"""


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def exchange(box: Box, *exchanges: dict[str, Any], tier: str = "untrusted") -> list[dict[str, Any]]:
    """Raw conversations with the port of this tier."""
    question = {"port": PORTS[tier], "exchanges": list(exchanges)}
    found: list[dict[str, Any]] = box.python(PROBE, question, as_helper=tier == "helper")
    return found

"""Nobody learns from an answer whether a repository exists; no upstream is asked for it."""

from __future__ import annotations

import re

import pytest

from tests.fakes.broker_scene import Scene
from tests.fakes.broker_world import Sidecar
from tests.fakes.reactor_tests import on_reactor
from tests.fakes.vectors import Spelling
from tests.stage.boxes import Box

ASKED = r"""
import json, re, socket, sys

sock = socket.create_connection(("127.0.0.1", 419), 100)
answers = {}

def answer(data=b""):
    while b"\r\n\r\n" not in data:
        data += sock.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    size = int(re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)[1])
    while len(body) < size:
        body += sock.recv(65536)
    return (head + b"\r\n\r\n" + body).decode("latin-1")

for name, request in json.load(sys.stdin).items():
    sock.sendall(request.encode("latin-1"))
    answers[name] = answer()
json.dump(answers, sys.stdout)
"""
NAMES = {
    "exists and is forbidden": "x-secret",
    "exists and is in no rule": "elsewhere",
    "exists for the other tier": "gate",
    "does not exist": "nothing-of-the-kind",
    "does not exist either": "nothing-else",
    "is misspelt": "one%2e",
}


def requests(spelling: Spelling) -> dict[str, str]:
    found = {
        case: Spelling(spelling.place, "play", name).allowed.decode("latin-1")
        for case, name in NAMES.items()
    }
    found["is at another place"] = Spelling("/other.example/").allowed.decode("latin-1")
    return found


@pytest.mark.root
def test_answers_are_the_same_byte_for_byte(new_box: Box, spelling: Spelling) -> None:
    """To one who has asked for nothing yet: who is refused again and again is told to stop."""
    told = new_box.python(ASKED, requests(spelling))
    answers = {
        re.sub(r"request id: [0-9a-f]{16}\b", "request id: ID", each) for each in told.values()
    }
    (answer,) = answers
    assert answer.startswith("HTTP/1.1 404 Not Found\r\n") and "(G101)" in answer


@on_reactor
async def test_the_broker_answers_them_the_same_and_asks_nobody(scene: Scene) -> None:
    """What would take its time is the upstream's word: none of them gets as far."""
    sidecar: Sidecar = await scene.world.session(_POLICY)
    seen = set()
    for name in ("acme/x-secret", "acme/nothing", "acme/gate"):
        reply = await sidecar.refs(name)
        seen.add((reply.status, reply.head and reply.head.headers, reply.data))
    assert len(seen) == 1 and next(iter(seen))[0] == 404
    assert not scene.upstream.talks


_POLICY = """
version = 1
name = "p"
[limits]
git_requests_per_minute = 100000
free_refusals = 100000
[[git]]
repos = ["up:acme/app", "up:acme/x-*"]
fetch = true
who = ["helper", "untrusted"]
[[git]]
effect = "deny"
repos = ["up:acme/x-secret"]
[[git]]
repos = ["up:acme/gate"]
fetch = true
"""

"""Nobody learns from an answer, or from its time, whether a repository exists."""

from __future__ import annotations

import re
import time
from statistics import median

import pytest

from tests.fakes.broker_world import Sidecar
from tests.fakes.reactor_tests import on_reactor
from tests.fakes.vectors import Spelling
from tests.live.boxes import Box
from tests.smuggling.conftest import Scene

ROUNDS = 60
# Of medians, measured in turns: what tells two things apart would be many times this.
MOST = 3.0

ASKED = r"""
import json, socket, sys

sock = socket.create_connection(("127.0.0.1", 419), 15)
answers = {}
for name, request in json.load(sys.stdin).items():
    sock.sendall(request.encode("latin-1"))
    answers[name] = sock.recv(65536).decode("latin-1")
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


def ratio(times: dict[str, list[float]]) -> float:
    medians = [median(each) for each in times.values()]
    return max(medians) / min(medians)


@pytest.mark.live
def test_answers_are_the_same_byte_for_byte(box: Box, spelling: Spelling) -> None:
    """How long they take is compared in tests/wire/sidecar/test_git_ports.py: here who asks for
    refused things again and again is slowed down on purpose."""
    told = box.python(ASKED, requests(spelling))
    answers = {
        re.sub(r"request id: [0-9a-f]{16}\b", "request id: ID", each) for each in told.values()
    }
    (answer,) = answers
    assert answer.startswith("HTTP/1.1 404 Not Found\r\n") and "(G101)" in answer


@on_reactor
async def test_the_broker_answers_them_the_same_and_equally_fast(scene: Scene) -> None:
    sidecar: Sidecar = await scene.world.session(_POLICY)
    names = ("acme/x-secret", "acme/nothing", "acme/gate")
    times: dict[str, list[float]] = {name: [] for name in names}
    seen = set()
    for _ in range(ROUNDS):
        for name in names:
            begun = time.perf_counter()
            reply = await sidecar.refs(name)
            times[name].append(time.perf_counter() - begun)
            seen.add((reply.status, reply.head and reply.head.headers, reply.data))
    assert len(seen) == 1 and next(iter(seen))[0] == 404
    assert not scene.upstream.talks
    assert ratio(times) < MOST


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

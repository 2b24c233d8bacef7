"""A sandbox that floods: what it gets, what it costs, and what the git gate still has."""

from __future__ import annotations

import contextlib
import gc
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve

from gitmoat.limits.buckets import BURST_MINUTES
from gitmoat.listeners import BUDGETS
from gitmoat.net.http.incoming import Incoming
from netpolicy.policy import Limits
from sidecar.budgets import CREDENTIALS_PER_MINUTE
from tests.fakes.sidecar_scope import POLICY, basic
from tests.fakes.sidecar_world import Hostd, World, read_to_end
from tests.fakes.whole_sidecar import whole_world

UNTRUSTED_GIT = BUDGETS["untrusted_git"]
FREE = Limits().free_refusals
APP = "hub.example/acme/app"
ADVERT = b"application/x-git-upload-pack-advertisement"


@pytest.fixture
def strangers(tmp_path: Path) -> Iterator[World]:
    """A sidecar whose helper is somebody else: we are the ones it refuses."""
    made = World(tmp_path, helper_uid=61002)
    made.start()
    yield made
    made.service.stop()
    made.loop.pass_time(60, step=5)
    made.broker.kill()
    made.broker.close()
    made.loop.settle()


def info_refs(repository: str, *headers: str) -> bytes:
    target = f"/{repository}/info/refs?service=git-upload-pack"
    lines = [f"GET {target} HTTP/1.1", "Host: 127.0.0.1:419", *headers, "", ""]
    return "\r\n".join(lines).encode()


def advertise(incoming: Incoming) -> None:
    incoming.reply(200, ((b"Content-Type", ADVERT),), b"refs\n")


def told(world: World, code: str) -> int:
    """How many refusals with this code the reports add up to."""
    found = [json.loads(report) for report in world.broker.reports]
    return sum(each.get("count", 1) for each in found if each.get("code") == code)


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def test_refused_again_and_again_is_answered_later_with_advice(world: World) -> None:
    world.start()
    hidden = info_refs("hub.example/acme/other")
    for _ in range(FREE):
        assert b"do not retry" not in world.answer(world.untrusted_port, hidden)
    client = world.request(world.untrusted_port, hidden)
    world.loop.settle()
    assert client.received == b""
    world.loop.pass_time(6)
    assert status(client.received) == 404
    assert b"do not retry" in client.received and b"allowed: " in client.received
    world.loop.pass_time(300, step=10)
    assert b"do not retry" not in world.answer(world.untrusted_port, hidden)


def test_what_a_verification_is_refused_slows_nobody_down(world: World) -> None:
    hostd = world.start()
    hidden = info_refs("hub.example/acme/other")
    hostd.link.send(b'{"op":"verifying","seconds":60}')
    world.loop.settle()
    for _ in range(FREE + 10):
        assert b"do not retry" not in world.answer(world.untrusted_port, hidden)
    hostd.link.send(b'{"op":"verifying","seconds":0}')
    world.loop.settle()
    for _ in range(FREE):
        assert b"do not retry" not in world.answer(world.untrusted_port, hidden)
    client = world.request(world.untrusted_port, hidden)
    world.loop.pass_time(6)
    assert b"do not retry" in client.received


def test_a_verification_that_nobody_ends_ends_by_itself(world: World) -> None:
    hostd = world.start()
    hidden = info_refs("hub.example/acme/other")
    hostd.link.send(b'{"op":"verifying","seconds":60}')
    world.loop.settle()
    hostd.link.close()
    world.loop.pass_time(61, step=5)
    for _ in range(FREE):
        world.answer(world.untrusted_port, hidden)
    client = world.request(world.untrusted_port, hidden)
    world.loop.pass_time(6)
    assert b"do not retry" in client.received


def test_only_root_can_say_that_a_verification_runs(strangers: World) -> None:
    """The socket's mode keeps others out; this is what a sidecar itself looks at."""
    paces = strangers.service._paces
    admitted = strangers.service._control._admitted
    strangers.service._control._admitted = evolve(admitted, uids=frozenset({61003}))
    intruder = Hostd(strangers)
    strangers.loop.settle()
    with contextlib.suppress(OSError):
        intruder.link.send(b'{"op":"verifying","seconds":60}')
    strangers.loop.settle()
    assert intruder.lost and not intruder.messages
    now = strangers.loop.seconds()
    assert len(paces) == 2 and not any(each.denials.lifted(now) for each in paces)


def test_a_slowed_port_still_serves_what_is_allowed_and_the_gate_at_once(world: World) -> None:
    world.broker.handler = advertise
    world.start()
    for _ in range(FREE + 30):
        world.request(world.untrusted_port, info_refs("hub.example/acme/other"))
    world.loop.settle()
    assert status(world.answer(world.untrusted_port, info_refs(APP))) == 200
    token = basic(world.token(APP))
    assert status(world.answer(world.helper_port, info_refs(APP, token))) == 200


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[World]:
    limits = evolve(POLICY.limits, git_requests_per_minute=10, git_concurrency=4)
    with whole_world(tmp_path, policy=evolve(POLICY, limits=limits)) as made:
        yield made


def test_requests_over_the_rate_are_refused_without_asking_the_broker(slow: World) -> None:
    """Those that wait at the broker are let through: as many as may be under way."""
    world = slow
    world.broker.handler = advertise
    world.start()
    allowed = 10 * BURST_MINUTES + 4 + 2
    answers = [world.answer(world.untrusted_port, info_refs(APP)) for _ in range(allowed + 3)]
    assert [status(each) for each in answers] == [200] * allowed + [429] * 3
    assert b"Retry-After: " in answers[-1] and b"G303" in answers[-1]
    assert len(world.broker.heads) == allowed
    world.loop.pass_time(60, step=10)
    assert status(world.answer(world.untrusted_port, info_refs(APP))) == 200


def test_hundreds_of_half_open_connections_leave_the_gate_its_port(world: World) -> None:
    world.broker.handler = advertise
    world.start()
    held: list[socket.socket] = []
    try:
        for _ in range(700):
            held.append(half_open(world.untrusted_port))
            world.loop.settle()
        taken = len(world.service._ports[1]._clients)
        assert taken <= UNTRUSTED_GIT.connections
        token = basic(world.token(APP))
        assert status(world.answer(world.helper_port, info_refs(APP, token))) == 200
    finally:
        for sock in held:
            sock.close()
    world.loop.pass_time(200, step=10)
    assert status(world.answer(world.untrusted_port, info_refs(APP))) == 200


def half_open(port: int) -> socket.socket:
    sock = socket.socket()
    sock.setblocking(False)
    sock.connect_ex(("127.0.0.1", port))
    try:
        sock.send(b"GET /")
    except OSError:
        pass  # it waits in the backlog, or not even there
    return sock


def test_new_connections_beyond_the_rate_wait_and_are_served_in_time(world: World) -> None:
    world.start()
    hidden = info_refs("hub.example/acme/other")
    budget = UNTRUSTED_GIT
    for _ in range(budget.burst):
        world.request(world.untrusted_port, hidden).vanish()
        world.loop.settle()
    late = world.request(world.untrusted_port, hidden)
    world.loop.settle()
    assert late.received == b""
    world.loop.pass_time(10)
    assert status(late.received) == 404


def test_a_flood_of_credential_requests_is_refused_and_reported_as_a_number(
    world: World,
) -> None:
    world.start()
    answers = [world.credential(APP) for _ in range(CREDENTIALS_PER_MINUTE + 50)]
    assert all(b"password=" in each for each in answers[:CREDENTIALS_PER_MINUTE])
    assert answers[CREDENTIALS_PER_MINUTE:] == [b"quit=1\n"] * 50
    world.loop.pass_time(60, step=1)
    assert b"password=" in world.credential(APP)
    assert told(world, "H106") == 50


def test_a_flood_at_the_credential_socket_needs_no_memory(strangers: World) -> None:
    """Everything that is kept for a connection goes with it: counted, not weighed."""
    sizes = []
    for _ in range(3):
        for _ in range(300):
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(str(strangers.folder / "cred.sock"))
                sock.setblocking(False)
                assert read_to_end(strangers.loop, sock) == b""
        strangers.loop.pass_time(10)
        gc.collect()
        sizes.append(len(gc.get_objects()))
    assert sizes[-1] - sizes[0] < 300
    assert len(strangers.broker.reports) < 60
    assert told(strangers, "H101") == 900

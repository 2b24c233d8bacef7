"""Whoever stalls beside a sidecar is given up by the clock, and its link serves the next one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve

from gitmoat.net.http.incoming import Incoming
from gitmoat.net.timing import Timeouts
from gitmoat.wire.http.heads import Chunked
from tests.fakes.sidecar_requests import UPLOAD, advertise, info_refs, status, upload
from tests.fakes.sidecar_scope import UPSTREAMS
from tests.fakes.sidecar_world import Client, World

APP = "hub.example/acme/app"
IDLE = 90  # the broker's patience and ours on top
PATIENT = Timeouts(idle=10_000, wait=10_000)


def busy_links(world: World) -> int:
    return sum(each.share is not None for each in world.service.link.pool._members.values())


def served_next(world: World) -> None:
    """No link is held any more, and the port serves."""
    assert busy_links(world) == 0
    world.broker.handler = advertise
    client = world.request(world.untrusted_port, info_refs(APP))
    world.loop.pass_time(2)
    world.loop.turn_until(lambda: client.whole)
    assert status(client.received) == 200
    client.close()


def silent(incoming: Incoming) -> None:
    """Takes the body and says nothing."""
    incoming.discard()


def half(incoming: Incoming) -> None:
    out = incoming.begin(200, ((b"Content-Type", UPLOAD),), Chunked())
    out.write(b"PACK")


def begin(world: World, raw: bytes) -> Client:
    client = world.request(world.untrusted_port, raw)
    world.loop.settle()
    return client


@pytest.mark.parametrize("raw", [info_refs(APP), upload(APP, b"0000")])
def test_a_broker_that_says_nothing_is_a_502_in_time(world: World, raw: bytes) -> None:
    world.broker.timeouts = PATIENT
    world.start()
    world.broker.handler = silent
    client = begin(world, raw)
    world.loop.pass_time(IDLE - 2, step=8)
    assert client.received == b""
    world.loop.pass_time(4, step=1)
    assert status(client.received) == 502 and b"B101" in client.received
    assert len(world.broker.heads) == 1
    client.close()
    world.loop.settle()
    served_next(world)


def test_a_broker_that_stops_in_the_middle_is_cut_and_so_is_its_client(world: World) -> None:
    world.broker.timeouts = PATIENT
    world.start()
    world.broker.handler = half
    client = begin(world, upload(APP, b"0000"))
    assert b"PACK" in client.received
    world.loop.pass_time(IDLE + 10, step=5)
    assert client.over and client.reset
    served_next(world)


def test_a_client_that_stops_sending_frees_the_link(world: World) -> None:
    world.broker.timeouts = PATIENT
    world.start()
    world.broker.handler = silent
    client = begin(world, upload(APP, b"0000").replace(b"Length: 4", b"Length: 400"))
    assert busy_links(world) == 1
    world.loop.pass_time(IDLE + 10, step=5)
    assert client.over
    served_next(world)


def test_a_client_that_stops_reading_frees_the_link(world: World) -> None:
    def endless(incoming: Incoming) -> None:
        out = incoming.begin(200, ((b"Content-Type", UPLOAD),), Chunked())
        paused = False

        def pause() -> None:
            nonlocal paused
            paused = True

        def resume() -> None:
            nonlocal paused
            paused = False
            while not paused and out.alive:
                out.write(bytes(65536))

        out.bind_source(pause, resume)
        resume()

    world.broker.timeouts = PATIENT
    world.start()
    world.broker.handler = endless
    client = world.request(world.untrusted_port, upload(APP, b"0000"))
    world.loop.removeReader(client)
    world.loop.settle()
    assert busy_links(world) == 1 and world.loop.peak < 8 << 20
    for _ in range(5):  # the kernel may still move some bytes, and the clock starts anew
        if busy_links(world):
            world.loop.pass_time(IDLE + 10, step=5)
    client.close()
    served_next(world)


@pytest.mark.parametrize(
    "begun", [b"G", info_refs(APP)[:30], upload(APP, b"0000").partition(b"\r\n\r\n")[0]]
)
def test_a_client_that_drips_its_head_is_told_so_after_ten_seconds(
    world: World, begun: bytes
) -> None:
    world.start()
    client = begin(world, begun)
    for _ in range(9):
        world.loop.pass_time(1)
        client.send(b"X" if b"\r\n" in begun else b"E")
        world.loop.settle()
        if client.over:
            break
    world.loop.pass_time(3)
    assert client.over and status(client.received) in (400, 408)
    assert world.broker.heads == []


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[World]:
    """A sidecar of a broker that waits five minutes for its upstreams."""
    made = World(tmp_path, upstreams=evolve(UPSTREAMS, idle=300))
    yield made
    made.service.stop()
    made.loop.pass_time(60, step=5)
    made.broker.kill()
    made.broker.close()
    made.loop.settle()


def test_a_sidecar_waits_longer_than_its_broker_does(patient: World) -> None:
    held: list[Incoming] = []
    patient.broker.timeouts = PATIENT
    patient.start()
    patient.broker.handler = held.append
    client = begin(patient, info_refs(APP))
    patient.loop.pass_time(310, step=10)
    assert client.received == b"" and not client.over
    advertise(held[0])
    patient.loop.turn_until(lambda: client.whole)
    assert status(client.received) == 200
    client.close()

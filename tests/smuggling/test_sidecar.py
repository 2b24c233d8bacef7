"""Every vector, as raw bytes, to a whole sidecar: refused as the file says, nothing passed on."""

from __future__ import annotations

import json

import pytest

from gitmoat.net.http.incoming import Incoming
from tests.fakes.sidecar_world import Client, World
from tests.fakes.vectors import ADDED, Spelling, Vector, answers, check, refused, status_of

SPELLING = Spelling("/hub.example/")
ADVERTISEMENT = ((b"Content-Type", b"application/x-git-upload-pack-advertisement"),)
HERE = [each for each in refused() if each.hop != "broker"]


def advertise(incoming: Incoming) -> None:
    if incoming.head.method == b"GET":
        incoming.reply(200, ADVERTISEMENT, b"SERVED")


def tried(world: World, vector: Vector) -> Client:
    """Sends the vector and, behind it, a request that would be served."""
    client = world.request(world.untrusted_port, SPELLING.bytes_of(vector.raw))
    try:
        client.send(SPELLING.allowed)
    except (BrokenPipeError, ConnectionResetError):
        pass
    world.loop.turn_until(lambda: client.over or b"SERVED" in client.received)
    client.close()
    return client


@pytest.mark.parametrize("form", dict.fromkeys(each.form for each in HERE))
def test_form_is_refused_and_reaches_nobody(world: World, form: str) -> None:
    world.start()
    world.broker.handler = advertise
    for vector in (each for each in HERE if each.form == form):
        world.broker.heads.clear()
        first, *more = answers(tried(world, vector).received)
        check(vector, first, more)
        gets = [head for head in world.broker.heads if head.method == b"GET"]
        assert len(gets) == (0 if vector.closes else 1), vector.id


def test_lfs_is_told_in_its_own_json(world: World) -> None:
    world.start()
    world.broker.handler = advertise
    for vector in (each for each in HERE if each.code == "G102"):
        (first, _) = answers(tried(world, vector).received)
        head, _, body = first.partition(b"\r\n\r\n")
        assert b"Content-Type: application/vnd.git-lfs+json" in head
        assert json.loads(body)["message"].startswith("gitmoat: Git LFS is not supported here")


def test_no_header_of_the_sandbox_goes_on(world: World) -> None:
    world.start()
    world.broker.handler = advertise
    raw = SPELLING.bytes_of("<GET>Git-Protocol: version=2\r\n") + b"\r\n".join(ADDED)
    answer = world.answer(world.untrusted_port, raw + b"\r\n\r\n")
    assert status_of(answer) == 200
    (head,) = world.broker.heads
    assert dict(head.headers) == {
        b"host": b"gitmoat",
        b"gitmoat-request-id": head.header(b"gitmoat-request-id"),
        b"gitmoat-tier": b"untrusted",
        b"accept": b"*/*",
        b"git-protocol": b"version=2",
    }
    assert head.header(b"gitmoat-request-id") != b"0000000000000000"


def test_no_header_of_the_broker_goes_back(world: World) -> None:
    def chatty(incoming: Incoming) -> None:
        more = ((b"Set-Cookie", b"a=b"), (b"WWW-Authenticate", b"Basic"), (b"Server", b"x"))
        incoming.reply(200, (*ADVERTISEMENT, *more), b"SERVED")

    world.start()
    world.broker.handler = chatty
    answer = world.answer(world.untrusted_port, SPELLING.allowed)
    head, _, _ = answer.partition(b"\r\n\r\n")
    names = {line.partition(b":")[0] for line in head.split(b"\r\n")[1:]}
    assert names == {b"Content-Type", b"Cache-Control", b"Content-Length"}

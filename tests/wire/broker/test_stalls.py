"""Whoever stalls, drips or resets, wherever: the end comes in time and the slot is free again."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from gitmoat.wire.git.pktline import FLUSH, format_data
from gitmoat.wire.git.smarthttp import Service
from gitmoat.wire.http.heads import Chunked, Length
from tests.fakes.broker_scene import Scene
from tests.fakes.broker_world import PACK_HEAD, POLICY, Reply, Sidecar, commands, post
from tests.fakes.fake_upstream import Talk, ok
from tests.fakes.reactor_tests import on_reactor

AGENT = "refs/heads/agent/a"
FETCHED = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-result\r\n"
PUSHED = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-receive-pack-result\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
PKT = format_data(b"\x01" + bytes(500))
PIECE = b"%x\r\n%b\r\n" % (len(PKT), PKT)
REFS = ok(Service.UPLOAD_PACK, "advertisement", FLUSH)


async def finished(scene: Scene, reply: Reply) -> Reply:
    """The reply, which must have ended one way or the other."""
    await scene.until(lambda: reply.done.called)
    return reply


async def all_is_free_again(scene: Scene, sidecar: Sidecar) -> None:
    """No slot, no upstream connection, no stream of the session is left."""
    (session,) = scene.world.sessions.living()
    await scene.until(lambda: session.budget.running == 0 and not len(session.running))
    await scene.until(lambda: all(talk.lost for talk in scene.upstream.talks))
    scene.upstream.on_head = lambda talk: None
    scene.upstream.answers(REFS)
    fresh: Sidecar = await scene.world.connect(sidecar.key, Sidecar)
    assert (await fresh.refs()).status == 200


def begin_fetch(sidecar: Sidecar) -> Reply:
    out, reply = sidecar.begin("POST", *post("acme/app", "git-upload-pack"), Length(4))
    out.write(FLUSH)
    out.finish()
    return reply


STALLS = {
    "before any byte": b"",
    "inside the head": FETCHED,
    "after the head": FETCHED + CHUNKED,
    "inside a pkt": FETCHED + CHUNKED + PIECE[:-100],
    "between two pkts": FETCHED + CHUNKED + PIECE,
    "after the last byte, without saying so": FETCHED + CHUNKED + PIECE + b"4\r\n0000\r\n",
    "inside a counted body": FETCHED + b"Content-Length: 1000\r\n\r\n" + PKT,
    "in a body that ends by closing": FETCHED + b"\r\n" + PKT,
}


@pytest.mark.parametrize("step", STALLS)
@on_reactor
async def test_an_upstream_that_stalls_is_given_up(hasty: Scene, step: str) -> None:
    hasty.upstream.on_request = lambda talk: talk.say(STALLS[step]) if STALLS[step] else None
    sidecar = await hasty.world.session()
    reply = await finished(hasty, begin_fetch(sidecar))
    assert reply.error or b"U101" in reply.data
    (outcome,) = hasty.world.audit("git.outcome")
    assert outcome["code"] == "U101"
    await all_is_free_again(hasty, sidecar)


@pytest.mark.parametrize("step", STALLS)
@on_reactor
async def test_an_upstream_that_resets_is_noticed_at_once(scene: Scene, step: str) -> None:
    def reset(talk: Talk) -> None:
        if STALLS[step]:
            talk.say(STALLS[step])
        scene.world.reactor.callLater(0.05, talk.abort)

    scene.upstream.on_request = reset
    sidecar = await scene.world.session()
    reply = begin_fetch(sidecar)
    await scene.until(lambda: scene.upstream.talks and scene.upstream.talks[0].lost)
    await scene.pause()
    assert reply.done.called
    assert reply.error or b"U101" in reply.data
    await all_is_free_again(scene, sidecar)


@pytest.mark.parametrize("body", [CHUNKED + b"1f4\r\n", b"Content-Length: 500\r\n\r\n"])
@on_reactor
async def test_an_upstream_that_drips_is_ended_by_the_whole_time(hasty: Scene, body: bytes) -> None:
    def drip(talk: Talk) -> None:
        if not talk.lost:
            talk.say(b"x")
            hasty.world.reactor.callLater(0.3, drip, talk)

    def start(talk: Talk) -> None:
        talk.say(FETCHED + body)
        drip(talk)

    hasty.upstream.on_request = start
    sidecar = await hasty.world.session()
    reply = await finished(hasty, begin_fetch(sidecar))
    assert reply.error or b"U101" in reply.data
    await all_is_free_again(hasty, sidecar)


@on_reactor
async def test_a_kept_connection_that_is_silent_is_not_asked_twice(hasty: Scene) -> None:
    hasty.upstream.answers(REFS)
    sidecar = await hasty.world.session()
    assert (await sidecar.refs()).status == 200
    hasty.upstream.on_request = lambda talk: None
    reply = await sidecar.refs()
    assert reply.status == 502 and b"U101" in reply.data
    assert (len(hasty.upstream.heads), len(hasty.upstream.talks)) == (2, 1)


@on_reactor
async def test_an_upstream_that_does_not_shake_hands_is_given_up(hasty: Scene) -> None:
    sidecar = await hasty.world.session()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hasty.world.upstream_port = silent.getsockname()[1]
        hasty.world.write_config()
        hasty.world.broker.context.routes.reload()
        reply = await sidecar.refs()
        assert reply.status == 502 and b"U101" in reply.data
    hasty.world.upstream_port = hasty.upstream.port
    hasty.world.write_config()
    hasty.world.broker.context.routes.reload()
    await all_is_free_again(hasty, sidecar)


@on_reactor
async def test_an_upstream_that_takes_no_more_of_a_push_is_given_up(hasty: Scene) -> None:
    hasty.upstream.on_head = lambda talk: talk.pause()
    sidecar = await hasty.world.session(POLICY.replace('push_max = "1MiB"', 'push_max = "1GiB"'))
    out, reply = sidecar.begin_push(Chunked())
    out.write(commands(AGENT) + PACK_HEAD)
    for _ in range(20):  # more than the kernel takes for nobody
        out.write(bytes(1 << 20))
        await hasty.pause(0.01)
    await finished(hasty, reply)
    assert b"(U101); it may have been applied" in reply.data
    assert hasty.upstream.bodies == []
    for talk in hasty.upstream.talks:
        talk.abort()
    await all_is_free_again(hasty, sidecar)


# The sidecar's side

BEGUN: dict[str, Callable[[], bytes]] = {
    "inside the head": lambda: head("git-receive-pack")[:-10],
    "behind the head": lambda: head("git-receive-pack"),
    "inside the commands": lambda: head("git-receive-pack") + chunk(commands(AGENT)[:40]),
    "inside the pack": lambda: head("git-receive-pack") + chunk(commands(AGENT) + PACK_HEAD),
    "inside a chunk": lambda: (
        head("git-receive-pack") + chunk(commands(AGENT) + PACK_HEAD) + b"ffff\r\nPACK"
    ),
    "inside a fetch": lambda: head("git-upload-pack") + chunk(b"0011command="),
    "of a push that was refused": lambda: (
        head("git-receive-pack") + chunk(commands("refs/x/y") + PACK_HEAD)
    ),
}


def head(service: str) -> bytes:
    target, headers = post("acme/app", service)
    lines = [f"POST {target} HTTP/1.1", "Host: gitmoat", "Transfer-Encoding: chunked"]
    lines += [f"{name.decode()}: {value.decode()}" for name, value in headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@on_reactor
async def test_sidecars_that_stall_are_cut_and_nothing_is_applied(hasty: Scene) -> None:
    """All at once: what is tested is that time passes."""
    sidecar = await hasty.world.session(
        POLICY.replace("git_concurrency = 3", "git_concurrency = 9")
    )
    stalled = {step: await hasty.world.connect_raw(sidecar.key) for step in BEGUN}
    for step, raw in stalled.items():
        raw.say(BEGUN[step]())
    for raw in stalled.values():
        await hasty.until(lambda raw=raw: raw.lost)  # type: ignore[misc]
    assert hasty.upstream.bodies == []
    await all_is_free_again(hasty, sidecar)


@pytest.mark.parametrize("whole", [False, True])
@on_reactor
async def test_who_stalls_an_upload_is_told_whose_silence_it_was(hasty: Scene, whole: bool) -> None:
    """And when the request was whole, it is the server's."""
    sidecar = await hasty.world.session()
    out, reply = sidecar.begin_push(Chunked())
    out.write(commands(AGENT) + PACK_HEAD)
    if whole:
        out.finish()
    await finished(hasty, reply)
    said = b"(U101); it may have been applied" if whole else b"(G306); the client stopped sending"
    assert said in reply.data
    (outcome,) = hasty.world.audit("git.outcome")
    assert outcome["code"] == ("U101" if whole else "G306")
    await all_is_free_again(hasty, sidecar)


@pytest.mark.parametrize("step", BEGUN)
@on_reactor
async def test_a_sidecar_that_resets_leaves_nothing_behind(scene: Scene, step: str) -> None:
    sidecar = await scene.world.session()
    raw = await scene.world.connect_raw(sidecar.key)
    raw.say(BEGUN[step]())
    await scene.pause(0.1)
    raw.hang_up()
    await all_is_free_again(scene, sidecar)
    assert scene.upstream.bodies == [b""]  # of the request that shows that all is free


@on_reactor
async def test_a_sidecar_that_drips_a_push_is_ended_by_the_whole_time(hasty: Scene) -> None:
    sidecar = await hasty.world.session()
    raw = await hasty.world.connect_raw(sidecar.key)
    raw.say(head("git-receive-pack") + chunk(commands(AGENT) + PACK_HEAD))

    def given_up() -> bool:
        return raw.lost or b"U101" in raw.heard

    def drip() -> None:
        if not given_up():
            raw.say(chunk(b"x"))
            hasty.world.reactor.callLater(0.3, drip)

    drip()
    await hasty.until(given_up)
    assert hasty.upstream.bodies == []
    raw.hang_up()
    await all_is_free_again(hasty, sidecar)


@on_reactor
async def test_a_sidecar_that_drips_its_head_is_told_so_and_cut(hasty: Scene) -> None:
    sidecar = await hasty.world.session()
    raw = await hasty.world.connect_raw(sidecar.key)
    for byte in head("git-upload-pack")[:8]:
        if not raw.lost:
            raw.say(bytes([byte]))
        await hasty.pause(0.2)
    assert raw.heard.startswith(b"HTTP/1.1 408 ")
    await hasty.until(lambda: raw.lost)


@on_reactor
async def test_who_does_not_shake_hands_is_cut(hasty: Scene) -> None:
    with socket.create_connection(("127.0.0.1", hasty.world.port)) as silent:
        silent.setblocking(False)
        silent.send(b"\x16\x03\x01")
        await hasty.pause(1.5)
        try:
            assert silent.recv(100) == b""
        except ConnectionResetError:
            pass


@on_reactor
async def test_a_sidecar_that_stops_reading_holds_the_upstream_and_is_then_cut(
    hasty: Scene,
) -> None:
    said = 0

    def pour(talk: Talk) -> None:
        """As much as the broker takes, in pieces that it could end with a word."""
        nonlocal said
        if talk.lost or said > 400:
            return
        talk.say(PIECE * 20)
        said += 1
        hasty.world.reactor.callLater(0, pour, talk)

    def start(talk: Talk) -> None:
        talk.say(FETCHED + CHUNKED)
        pour(talk)

    hasty.upstream.on_request = start
    sidecar = await hasty.world.session(_WIDE)
    reply = begin_fetch(sidecar)
    await reply.started
    sidecar.connection.pause_reading()
    await hasty.pause(4)
    assert all(talk.lost for talk in hasty.upstream.talks)
    sidecar.connection.resume_reading()
    await finished(hasty, reply)
    await all_is_free_again(hasty, sidecar)


_WIDE = """
version = 1
name = "p"
[[git]]
repos = ["up:acme/app"]
fetch = true
who = ["helper", "untrusted"]
"""

"""What a hostile upstream may say: nothing odd is passed on, no odd connection is used again."""

from __future__ import annotations

import pytest

from gitmoat.wire.git.pktline import FLUSH, format_data
from gitmoat.wire.git.smarthttp import Service
from tests.fakes.broker_scene import Scene
from tests.fakes.fake_upstream import ok
from tests.fakes.reactor_tests import on_reactor

REFS = format_data(b"# service=git-upload-pack\n") + FLUSH + format_data(b"version 2\n") + FLUSH
GOOD = ok(Service.UPLOAD_PACK, "advertisement", REFS)
OK = b"HTTP/1.1 200 OK\r\n"
TYPE = b"Content-Type: application/x-git-upload-pack-advertisement\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(REFS)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
SAFE = OK + TYPE + LENGTH
INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n"

HEADS: dict[str, list[bytes]] = {
    "length and coding": [
        OK + TYPE + LENGTH + CHUNKED + b"\r\n" + REFS,
        OK + CHUNKED + TYPE + LENGTH + b"\r\n0\r\n\r\n",
    ],
    "length twice": [SAFE + LENGTH + b"\r\n" + REFS, SAFE + b"content-length: 0\r\n\r\n" + REFS],
    "length that is none": [
        OK + TYPE + b"Content-Length: +4\r\n\r\n0000",
        OK + TYPE + b"Content-Length: 4, 4\r\n\r\n0000",
    ],
    "other codings": [
        OK + TYPE + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
        OK + TYPE + b"Transfer-Encoding: identity\r\n\r\n",
        OK + TYPE + CHUNKED + CHUNKED + b"\r\n",
    ],
    "flood of interim answers": [INTERIM * 5 + GOOD, b"HTTP/1.1 100 Continue\r\n\r\n" * 50 + GOOD],
    "switch of protocols": [
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n" + GOOD,
        b"HTTP/1.1 101 X\r\n\r\n",
    ],
    "interim answer with a body": [
        b"HTTP/1.1 103 X\r\nContent-Length: 4\r\n\r\n0000" + GOOD,
        b"HTTP/1.1 100 X\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + GOOD,
    ],
    "folded lines": [SAFE + b"X: a\r\n b\r\n\r\n" + REFS, OK + b" X: a\r\n" + SAFE[17:] + b"\r\n"],
    "bare line ends": [SAFE.replace(b"\r\n", b"\n") + b"\n" + REFS, SAFE + b"X: a\nY: b\r\n\r\n"],
    "control bytes": [SAFE + b"X: a\0b\r\n\r\n" + REFS, SAFE + b"X: \x1b[2J\r\n\r\n" + REFS],
    "other versions": [
        b"HTTP/1.0 200 OK\r\n" + TYPE + LENGTH + b"\r\n" + REFS,
        b"HTTP/2 200 OK\r\n" + TYPE + LENGTH + b"\r\n" + REFS,
    ],
    "status that is none": [
        b"HTTP/1.1 2000 OK\r\n" + TYPE + LENGTH + b"\r\n" + REFS,
        b"HTTP/1.1 099 OK\r\n" + TYPE + LENGTH + b"\r\n" + REFS,
        b"HTTP/1.1 OK\r\n\r\n",
    ],
    "too much head": [
        SAFE + b"X: y\r\n" * 200 + b"\r\n" + REFS,
        SAFE + b"X: " + b"a" * 70000 + b"\r\n\r\n" + REFS,
    ],
    "no HTTP": [b"SSH-2.0-OpenSSH_9.2\r\n", b"\r\n" + GOOD, b"<html>"],
}
BODIES: dict[str, list[bytes]] = {
    "chunk extensions": [b"4;x=y\r\n0000\r\n0\r\n\r\n", b"4\r\n0000\r\n0;x\r\n\r\n"],
    "trailers": [b"4\r\n0000\r\n0\r\nSet-Cookie: a=b\r\n\r\n", b"4\r\n0000\r\n0\r\nX: y\r\n\r\n"],
    "chunk sizes that are none": [b"0x4\r\n0000\r\n", b"-4\r\n0000\r\n", b"4 \r\n0000\r\n"],
    "chunk longer than its size": [b"3\r\n0000\r\n0\r\n\r\n", b"4\r\n0000\n0\r\n\r\n"],
}


def cases(corpus: dict[str, list[bytes]]) -> list[object]:
    return [
        pytest.param(raw, id=f"{form} {number}")
        for form, spellings in corpus.items()
        for number, raw in enumerate(spellings)
    ]


def test_every_form_has_two_spellings() -> None:
    assert all(len(set(each)) >= 2 for each in [*HEADS.values(), *BODIES.values()])


async def next_is_served_on_a_new_connection(scene: Scene, sidecar: object) -> None:
    before = len(scene.upstream.talks)
    scene.upstream.answers(GOOD)
    reply = await sidecar.refs()  # type: ignore[attr-defined]
    assert (reply.status, reply.data) == (200, REFS)
    assert len(scene.upstream.talks) == before + 1
    assert all(talk.lost for talk in scene.upstream.talks[:-1])


@pytest.mark.parametrize("raw", cases(HEADS))
@on_reactor
async def test_odd_head_is_answered_in_our_own_words(scene: Scene, raw: bytes) -> None:
    scene.upstream.answers(raw)
    sidecar = await scene.world.session()
    reply = await sidecar.refs()
    assert reply.status == 502 and b"U104" in reply.data
    assert len(scene.upstream.heads) == 1
    await scene.pause()
    await next_is_served_on_a_new_connection(scene, sidecar)


@pytest.mark.parametrize("raw", cases(BODIES))
@on_reactor
async def test_odd_body_is_cut_or_ended_in_words_and_never_completed(
    scene: Scene, raw: bytes
) -> None:
    scene.upstream.answers(OK + TYPE + CHUNKED + b"\r\n" + raw)
    sidecar = await scene.world.session()
    reply = await sidecar.refs()
    assert reply.status == 200 and (reply.error or b"U104" in reply.data)
    assert b"Set-Cookie" not in reply.data
    await scene.pause()
    scene.world.clients.clear()
    fresh = await scene.world.connect(sidecar.key, type(sidecar))
    await next_is_served_on_a_new_connection(scene, fresh)


@pytest.mark.parametrize("behind", [b"X", GOOD, b"HTTP/1.1 200 OK\r\n\r\n", b"\r\n"])
@on_reactor
async def test_bytes_behind_an_answer_are_nobodys_answer(scene: Scene, behind: bytes) -> None:
    scene.upstream.answers(GOOD + behind)
    sidecar = await scene.world.session()
    assert (await sidecar.refs()).data == REFS
    await scene.pause()
    await next_is_served_on_a_new_connection(scene, sidecar)


@on_reactor
async def test_bytes_that_come_while_nobody_asked_end_the_connection(scene: Scene) -> None:
    scene.upstream.answers(GOOD)
    sidecar = await scene.world.session()
    assert (await sidecar.refs()).data == REFS
    scene.upstream.talks[0].say(GOOD)
    await scene.pause()
    assert scene.upstream.talks[0].lost
    await next_is_served_on_a_new_connection(scene, sidecar)


@on_reactor
async def test_a_few_interim_answers_are_passed_by(scene: Scene) -> None:
    scene.upstream.answers(INTERIM * 4 + GOOD)
    assert (await (await scene.world.session()).refs()).data == REFS


@pytest.mark.parametrize(
    "line",
    [
        b"Set-Cookie: session=secret",
        b"WWW-Authenticate: Negotiate",
        b"Proxy-Authenticate: Basic",
        b"Location: https://evil.example/",
        b"Refresh: 0;url=https://evil.example/",
        b'Alt-Svc: h3=":443"',
        b"Strict-Transport-Security: max-age=1",
        b"Gitmoat-Request-Id: ffffffffffffffff",
        b"Cache-Control: public",
        b"X-Evil: \xff\xfe",
    ],
)
@on_reactor
async def test_header_of_the_upstream_goes_nowhere(scene: Scene, line: bytes) -> None:
    scene.upstream.answers(ok(Service.UPLOAD_PACK, "advertisement", REFS, line))
    reply = await (await scene.world.session()).refs()
    assert reply.status == 200 and reply.head is not None
    name, _, value = line.partition(b": ")
    assert (name.lower(), value) not in reply.head.headers
    assert len(reply.head.headers) == 4

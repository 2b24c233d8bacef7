"""Every vector to the broker, inside a session's TLS: a sidecar that fell gains nothing by it."""

from __future__ import annotations

import pytest

from gitmoat.wire.git.pktline import FLUSH, format_data
from gitmoat.wire.git.smarthttp import Service
from tests.fakes.broker_scene import Scene
from tests.fakes.broker_world import BASIC, ID, RawSidecar
from tests.fakes.fake_upstream import ok
from tests.fakes.reactor_tests import on_reactor
from tests.fakes.vectors import ADDED, Spelling, answers, check, refused, status_of

ENVELOPE = f"Gitmoat-Request-Id: {ID}\r\nGitmoat-Tier: untrusted\r\n"
SPELLING = Spelling("/git/up/", envelope=ENVELOPE)
SERVED = format_data(b"# service=git-upload-pack\n") + FLUSH + format_data(b"SERVED") + FLUSH
# The head of a fetch goes upstream before its body is known to be malformed; no more of it does.
FETCHES = ("gzip body that is not one member", "gzip bomb")


async def heard(scene: Scene, raw: RawSidecar, count: int) -> list[bytes]:
    """What is answered until the connection ends or `count` answers are whole."""
    for _ in range(400):
        found = answers(raw.heard)
        if raw.lost or (len(found) == count and b"SERVED" in found[-1]):
            break
        await scene.pause(0.01)
    return answers(raw.heard)


@pytest.mark.parametrize("form", dict.fromkeys(each.form for each in refused()))
@on_reactor
async def test_form_is_refused_and_reaches_nobody(scene: Scene, form: str) -> None:
    scene.upstream.answers(ok(Service.UPLOAD_PACK, "advertisement", SERVED))
    session = await scene.world.session()
    for vector in (each for each in refused() if each.form == form):
        scene.upstream.heads.clear()
        raw = await scene.world.connect_raw(session.key)
        raw.say(SPELLING.bytes_of(vector.raw) + SPELLING.allowed)
        first, *more = await heard(scene, raw, 1 if vector.closes else 2)
        check(vector, first, more)
        assert raw.lost == vector.closes, vector.id
        gets = [head for head in scene.upstream.heads if head.startswith(b"GET")]
        assert len(gets) == (0 if vector.closes else 1), vector.id
        assert form in FETCHES or scene.upstream.heads == gets, vector.id
        raw.hang_up()


@on_reactor
async def test_no_byte_of_a_bomb_goes_upstream_beyond_the_limit(scene: Scene) -> None:
    session = await scene.world.session()
    for vector in (each for each in refused() if each.form in FETCHES):
        raw = await scene.world.connect_raw(session.key)
        raw.say(SPELLING.bytes_of(vector.raw))
        await heard(scene, raw, 1)
        await scene.pause()
        assert scene.upstream.talks[-1].lost
        raw.hang_up()
    assert len(scene.upstream.bodies) <= 1  # the one that is only cut short


@on_reactor
async def test_no_header_of_the_sidecar_goes_upstream(scene: Scene) -> None:
    scene.upstream.answers(ok(Service.UPLOAD_PACK, "advertisement", SERVED))
    session = await scene.world.session()
    raw = await scene.world.connect_raw(session.key)
    added = [each for each in ADDED if not each.startswith(b"Gitmoat-")]
    raw.say(SPELLING.bytes_of("<GET>") + b"\r\n".join(added) + b"\r\n\r\n")
    (answer,) = await heard(scene, raw, 1)
    assert status_of(answer) == 200
    (head,) = scene.upstream.heads
    names = [line.partition(b":")[0] for line in head.split(b"\r\n")[1:]]
    assert names == [b"Host", b"User-Agent", b"Accept", b"Authorization"]
    assert BASIC in head and b"evil" not in head
    raw.hang_up()


@pytest.mark.parametrize(
    "envelope",
    [
        ENVELOPE + "Gitmoat-Tier: helper\r\n",
        ENVELOPE + f"gitmoat-request-id: {ID}\r\n",
        ENVELOPE.replace("untrusted", "UNTRUSTED"),
        ENVELOPE.replace(ID, ID.upper()),
        ENVELOPE.replace(ID, ID + "0"),
        "",
    ],
)
@on_reactor
async def test_an_envelope_of_two_readings_is_malformed(scene: Scene, envelope: str) -> None:
    session = await scene.world.session()
    raw = await scene.world.connect_raw(session.key)
    raw.say(Spelling("/git/up/", envelope=envelope).allowed)
    (answer,) = await heard(scene, raw, 1)
    assert status_of(answer) == 400 and b"G104" in answer
    assert not scene.upstream.talks
    raw.hang_up()

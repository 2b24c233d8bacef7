"""Limits across sessions, quotas, upstreams that want rest, and the brake."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.defer import ensureDeferred

from broker.exchange.least_rate import Paced
from gitmoat.wire.git.pktline import format_data
from gitmoat.wire.git.smarthttp import Service
from gitmoat.wire.http.framing import Chunked
from gitmoat.wire.http.heads import Length
from tests.fakes.broker_scene import Scene
from tests.fakes.broker_traffic import CHUNKED, RESULT, chunk
from tests.fakes.broker_world import PACK_HEAD, POLICY, Asker, Reply, Sidecar, commands, post
from tests.fakes.fake_upstream import Talk, ok
from tests.fakes.reactor_tests import on_reactor

REFS = format_data(b"version 2\n") + b"0000"
ADVERTISEMENT = ok(Service.UPLOAD_PACK, "advertisement", REFS)
REFUSED = b"HTTP/1.1 %s X\r\n%sContent-Length: 0\r\n\r\n"


def quota(size: str) -> str:
    return POLICY.replace("[limits]", f'[limits]\nsession_max = "{size}"')


async def begin_fetch(sidecar: Sidecar) -> None:
    out, _ = sidecar.begin("POST", *post("acme/app", "git-upload-pack"), Length(4))
    out.write(b"0000")
    out.finish()


@on_reactor
async def test_operations_of_all_sessions_are_limited_and_served_in_turn(scene: Scene) -> None:
    scene.world.broker.context.admission._slots.total = 1
    scene.upstream.on_request = lambda talk: None
    greedy, modest = await scene.world.session(), await scene.world.session()
    more: Sidecar = await scene.world.connect(greedy.key, Sidecar)
    await begin_fetch(greedy)
    await scene.until(lambda: scene.upstream.talks)
    await begin_fetch(more)
    admission = scene.world.broker.context.admission
    await scene.until(lambda: admission.waiting == 1)
    scene.upstream.answers(ADVERTISEMENT)
    waiting = modest.refs()
    greedy.connection.abort()
    assert (await waiting).status == 200
    more.connection.abort()
    await scene.until(lambda: not admission.running and not admission.waiting)


@on_reactor
async def test_who_waits_too_long_for_a_turn_is_told_when_to_come_back(scene: Scene) -> None:
    scene.world.broker.context.admission._slots.total = 1
    scene.upstream.on_request = lambda talk: None
    holder = await scene.world.session()
    await begin_fetch(holder)
    await scene.until(lambda: scene.upstream.talks)
    limits = scene.world.broker.context.routes.now.config.limits
    object.__setattr__(limits, "queue", 1)
    other = await scene.world.session()
    turned = await other.refs()
    assert turned.status == 503 and turned.header(b"retry-after") == b"1"
    assert b"B106" in turned.data
    pushed = await other.push(commands("refs/heads/agent/a") + PACK_HEAD)
    assert pushed.status == 200 and b"B106" in pushed.data
    # Neither a host nor its revocation has to wait for anybody.
    host = await scene.world.host()
    assert (await host.ask("GET", "/host/health")).status == 200
    body = json.dumps({"session": "session-1", "reason": "r"}).encode()
    assert (await host.ask("POST", "/host/revoke", (), body)).status == 200
    scene.upstream.answers(ADVERTISEMENT)
    assert (await other.refs()).status == 200


@on_reactor
async def test_the_command_leaves_the_gate_its_share(scene: Scene) -> None:
    scene.upstream.answers(ADVERTISEMENT)
    policy = POLICY.replace("git_requests_per_minute = 50", "git_requests_per_minute = 1")
    sidecar = await scene.world.session(policy)
    assert [(await sidecar.refs()).status for _ in range(6)] == [200] * 5 + [429]
    assert [(await sidecar.refs(tier="helper")).status for _ in range(6)] == [200] * 5 + [429]


@on_reactor
async def test_requests_of_all_sessions_have_a_rate(scene: Scene) -> None:
    scene.upstream.answers(ADVERTISEMENT)
    first, second = await scene.world.session(), await scene.world.session()
    everybody = scene.world.broker.context.admission._everybody
    everybody._all.take(scene.world.now, everybody.level(scene.world.now) - 1)
    assert (await first.refs()).status == 200
    busy = await second.refs()
    assert busy.status == 503 and b"B106" in busy.data and busy.header(b"retry-after") == b"1"
    assert scene.world.sessions.by_id("session-2").budget.running == 0  # type: ignore[union-attr]


@on_reactor
async def test_a_rest_that_the_upstream_asks_for_is_kept_by_every_session(scene: Scene) -> None:
    rest = b"Retry-After: 40\r\nX-RateLimit-Remaining: 0\r\n"
    scene.upstream.answers(REFUSED % (b"429", rest))
    first, second = await scene.world.session(), await scene.world.session()
    for sidecar in (first, second, first):
        reply = await sidecar.refs()
        assert reply.status == 429 and reply.header(b"retry-after") == b"40"
        assert b"U108" in reply.data
    assert len(scene.upstream.heads) == 1
    scene.upstream.answers(ADVERTISEMENT)
    scene.world.now += 40
    assert (await second.refs()).status == 200


@on_reactor
async def test_a_rest_that_one_sandbox_provokes_is_its_own_until_another_is_told(
    scene: Scene,
) -> None:
    scene.upstream.answers(REFUSED % (b"429", b"Retry-After: 3600\r\n"))
    hostile, other = await scene.world.session(), await scene.world.session()
    for _ in range(3):
        assert (await hostile.refs()).status == 429
    assert len(scene.upstream.heads) == 1
    scene.upstream.answers(ADVERTISEMENT)
    assert [(await other.refs()).status for _ in range(5)] == [200] * 5
    assert (await hostile.refs()).status == 429


@on_reactor
async def test_a_403_with_no_requests_left_is_a_rest_and_no_denial(scene: Scene) -> None:
    scene.upstream.answers(REFUSED % (b"403", b"X-RateLimit-Remaining: 0\r\n"))
    reply = await (await scene.world.session()).refs()
    assert reply.status == 429 and b"U108" in reply.data


TWO_REPOSITORIES = POLICY.replace(
    'repos = ["up:acme/app"]', 'repos = ["up:acme/app", "up:acme/bad"]'
)


def broken_beside_healthy(scene: Scene, answer: bytes = REFUSED % (b"500", b"")) -> None:
    """acme/bad answers with an error, every other repository is in order."""

    def serve(talk: Talk) -> None:
        bad = b"/acme/bad.git/" in scene.upstream.heads[-1]
        talk.say(answer if bad else ADVERTISEMENT)

    scene.upstream.on_request = serve


@on_reactor
async def test_a_repository_with_errors_is_left_alone_and_refusals_of_ours_do_not_count(
    scene: Scene,
) -> None:
    sidecar = await scene.world.session()
    for _ in range(8):
        assert (await sidecar.refs("acme/other")).status == 404
    scene.upstream.answers(REFUSED % (b"500", b""))
    for _ in range(5):
        assert b"U110" in (await sidecar.refs()).data
    asked = len(scene.upstream.heads)
    alone = await sidecar.refs()
    assert alone.status == 502 and b"U110" in alone.data and alone.header(b"retry-after") == b"2"
    assert len(scene.upstream.heads) == asked
    scene.upstream.answers(ADVERTISEMENT)
    scene.world.now += 3
    assert (await sidecar.refs()).status == 200


@on_reactor
async def test_a_repository_that_fails_for_one_sandbox_closes_no_door_for_another(
    scene: Scene,
) -> None:
    broken_beside_healthy(scene)
    one = await scene.world.session(TWO_REPOSITORIES)
    other = await scene.world.session(TWO_REPOSITORIES)
    for _ in range(20):
        assert b"U110" in (await one.refs("acme/bad")).data
    assert [(await other.refs()).status for _ in range(20)] == [200] * 20
    assert (await one.refs()).status == 200, "nor its own other doors"
    asked = len(scene.upstream.heads)
    assert b"U110" in (await other.refs("acme/bad")).data, "each finds out for itself"
    assert len(scene.upstream.heads) == asked + 1
    assert not scene.world.broker.context.limiters._breakers["up"].open


@on_reactor
async def test_connections_that_are_dropped_for_what_one_sandbox_sent_are_its_own_failures(
    scene: Scene,
) -> None:
    sidecar, other = await scene.world.session(), await scene.world.session()
    scene.upstream.on_request = lambda talk: talk.abort()
    for _ in range(6):
        assert b"U101" in (await sidecar.fetch()).data
    scene.upstream.answers(ADVERTISEMENT)
    assert [(await other.refs()).status for _ in range(20)] == [200] * 20
    assert b"U101" in (await sidecar.fetch()).data


@on_reactor
async def test_an_upstream_that_cannot_be_connected_to_is_left_alone_by_all(scene: Scene) -> None:
    one, other = await scene.world.session(), await scene.world.session()
    await scene.upstream.close()
    for _ in range(5):
        assert b"U101" in (await one.refs()).data
    assert scene.world.broker.context.limiters._breakers["up"].open
    told = await other.refs()
    assert b"U101" in told.data and told.header(b"retry-after") == b"2"


@on_reactor
async def test_a_session_at_its_quota_is_told_in_the_fetch_and_has_ended(scene: Scene) -> None:
    sidecar = await scene.world.session(quota("100KiB"))

    def serve(talk: Talk) -> None:
        line = format_data(b"\x01" + bytes(30000))
        talk.say(CHUNKED + chunk(format_data(b"packfile\n")) + chunk(line) * 9)

    scene.upstream.on_request = serve
    cut = await sidecar.fetch()
    assert b"(G305)" in cut.data and cut.data.endswith(b"0000")
    assert len(cut.data) < 200_000
    ended = await sidecar.refs()
    assert ended.status == 401 and b"S101" in ended.data
    scene.world.broker.tick()
    (record,) = scene.world.audit("session.ended")
    assert record["reason"] == "quota"
    (outcome,) = scene.world.audit("git.outcome")
    assert outcome["code"] == "G305"


@on_reactor
async def test_a_push_over_the_quota_is_told_per_ref(scene: Scene) -> None:
    sidecar = await scene.world.session(quota("50KiB"))
    scene.upstream.on_request = lambda talk: None
    out, reply = sidecar.begin_push(Chunked())
    out.write(commands("refs/heads/agent/a") + PACK_HEAD + bytes(60_000))
    out.finish()
    told = await reply.done
    assert told.status == 200 and b"ng refs/heads/agent/a" in told.data and b"(G305)" in told.data


@on_reactor
async def test_a_new_sidecar_or_a_new_broker_brings_no_new_bytes(scene: Scene) -> None:
    scene.upstream.answers(ADVERTISEMENT)
    sidecar = await scene.world.session()
    assert (await sidecar.refs()).status == 200
    moved = scene.world.sessions.by_id("session-1").bytes.used  # type: ignore[union-attr]
    assert moved >= len(REFS)
    stored = scene.world.sessions.by_id("session-1").stored  # type: ignore[union-attr]
    assert scene.world.sessions._moved(stored.host, stored.sandbox).git == moved
    await scene.world.stop()
    scene.world.start()
    assert scene.world.sessions.by_id("session-1").bytes.used == moved  # type: ignore[union-attr]


def watches(scene: Scene) -> list[Any]:
    """The timers that look at a transfer's rate."""
    calls = scene.world.reactor.getDelayedCalls()
    return [each for each in calls if getattr(each.func, "__func__", None) is Paced._look]


@on_reactor
async def test_a_trickle_is_ended_and_said(scene: Scene) -> None:
    sidecar = await scene.world.session()
    scene.upstream.on_request = lambda talk: None
    out, reply = sidecar.begin_push(Chunked())
    out.write(commands("refs/heads/agent/a") + PACK_HEAD)
    await scene.until(lambda: watches(scene))
    scene.world.now += 30
    out.write(b"x")
    watches(scene)[0].reset(0)
    told = await reply.done
    assert b"(G306)" in told.data
    (outcome,) = scene.world.audit("git.outcome")
    assert outcome["code"] == "G306"


@on_reactor
async def test_a_server_that_thinks_for_long_is_no_trickle(scene: Scene) -> None:
    sidecar = await scene.world.session()
    scene.upstream.on_request = lambda talk: None
    done = ensureDeferred(sidecar.fetch())
    await scene.until(lambda: watches(scene) and scene.upstream.heads)
    scene.world.now += 30
    watches(scene)[0].reset(0)
    await scene.pause(0.1)
    scene.upstream.talks[0].say(RESULT + b"Content-Length: 4\r\n\r\n0000")
    assert (await done).status == 200


@on_reactor
async def test_refused_again_and_again_is_answered_later_with_advice(scene: Scene) -> None:
    sidecar = await scene.world.session()
    for _ in range(10):
        assert b"do not retry" not in (await sidecar.refs("acme/other")).data
    began = scene.world.reactor.seconds()
    slowed = await sidecar.refs("acme/other")
    assert slowed.status == 404 and b"do not retry" in slowed.data and b"allowed: " in slowed.data
    assert scene.world.reactor.seconds() - began >= 0.2
    session = scene.world.sessions.by_id("session-1")
    assert session is not None and session.brake.total == 11
    scene.upstream.answers(ADVERTISEMENT)
    assert (await sidecar.refs()).status == 200


async def told(asker: Asker, path: str, fields: dict[str, object]) -> Reply:
    return await asker.ask("POST", path, (), json.dumps(fields).encode())


async def verifying(scene: Scene, seconds: object, session: str = "session-1") -> Reply:
    host = await scene.world.host()
    return await told(host, "/host/verifying", {"session": session, "seconds": seconds})


@on_reactor
async def test_what_a_verification_is_refused_slows_nobody_down(scene: Scene) -> None:
    sidecar = await scene.world.session()
    session = scene.world.sessions.by_id("session-1")
    assert session is not None
    assert (await verifying(scene, 60)).status == 200
    refused: dict[str, object] = {"event": "git-refused", "code": "G101", "count": 40}
    for _ in range(15):
        assert b"do not retry" not in (await sidecar.refs("acme/other")).data
    assert (await told(sidecar, "/report", refused)).status == 200
    assert (await verifying(scene, 0)).status == 200
    assert (await told(sidecar, "/report", refused)).status == 200, "one that comes late"
    assert session.brake.total == 95
    for _ in range(10):
        assert b"do not retry" not in (await sidecar.refs("acme/other")).data
    assert b"do not retry" in (await sidecar.refs("acme/other")).data
    scene.world.now += 120
    assert (await told(sidecar, "/report", refused)).status == 200
    assert b"do not retry" in (await sidecar.refs("acme/other")).data


@on_reactor
async def test_a_sandbox_cannot_say_that_it_is_verified(scene: Scene) -> None:
    sidecar = await scene.world.session()
    await scene.world.session()
    session = scene.world.sessions.by_id("session-1")
    assert session is not None
    wanted: dict[str, object] = {"session": "session-1", "seconds": 60}
    assert (await told(sidecar, "/host/verifying", wanted)).status == 404
    assert (await verifying(scene, 60, "session-2")).status == 200, "of another sandbox"
    for wrong in (-1, "60", 1.5, True, None):
        assert (await verifying(scene, wrong)).status == 400
    assert (await verifying(scene, 60, "session-9")).status == 403
    assert not session.brake.lifted(scene.world.now)
    for _ in range(10):
        await sidecar.refs("acme/other")
    assert b"do not retry" in (await sidecar.refs("acme/other")).data


@on_reactor
async def test_a_flood_of_refusals_is_a_number_in_the_audit_and_pushes_never(
    scene: Scene,
) -> None:
    more = "git_requests_per_minute = 1000\nfree_refusals = 1000"
    sidecar = await scene.world.session(POLICY.replace("git_requests_per_minute = 50", more))
    for _ in range(30):
        await sidecar.refs("acme/other")
    for _ in range(5):
        await sidecar.push(commands("refs/heads/main") + PACK_HEAD)
    scene.world.broker.summaries.record_denials()
    denied = [one for one in scene.world.audit("git.decision") if one["decision"] == "deny"]
    (summary,) = scene.world.audit("denials.summarised")
    assert len(denied) + summary["count"] == 30
    assert summary["code"] == "G101" and summary["count"] >= 5
    assert len(scene.world.audit("push.decision")) == 5
    for _ in range(6):
        await sidecar.push(commands(*(f"refs/heads/no/{n}" for n in range(900))) + PACK_HEAD)
    last = scene.world.audit("push.decision")[-1]
    assert len(last["refs"]) == 6 and last["refs"][-1]["ref"] == "and 895 more"
    assert len(scene.world.audit("push.decision")) == 11


@on_reactor
async def test_an_upstream_that_slices_its_answer_finely_is_cut_and_the_fetch_is_told(
    scene: Scene,
) -> None:
    sidecar = await scene.world.session()
    scene.upstream.on_request = lambda talk: talk.say(CHUNKED + chunk(b"0006\x02." * 10_000) * 10)
    told = await sidecar.fetch()
    assert b"(U104)" in told.data and told.data.endswith(b"0000")
    (outcome,) = scene.world.audit("git.outcome")
    assert outcome["code"] == "U104"
    scene.upstream.answers(ADVERTISEMENT)
    assert (await sidecar.refs()).status == 200


@on_reactor
async def test_a_push_beyond_what_a_session_may_have_written_is_told_to_wait(
    scene: Scene,
) -> None:
    """Else pushes of a thousand long names would have everybody's older records removed."""
    greedy, modest = await scene.world.session(), await scene.world.session()
    scene.upstream.answers(ADVERTISEMENT)
    session = scene.world.sessions.by_id("session-1")
    assert session is not None
    while not session.denials.wait([512] * 1000, scene.world.now):
        pass
    names = [f"refs/heads/agent/{number:0500d}" for number in range(1000)]
    refused = await greedy.push(commands(*names) + PACK_HEAD)
    assert b"G303): again in " in refused.data and not scene.upstream.talks
    assert scene.world.audit("push.decision") == []
    while not session.denials.wait([], scene.world.now):
        pass
    waits = await greedy.refs()
    assert waits.status == 429 and waits.header(b"retry-after") == b"1"
    assert (await modest.refs()).status == 200

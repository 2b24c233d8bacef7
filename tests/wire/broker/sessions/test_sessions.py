"""Who may ask at all: keys, grants, activation, revocation, ends by time."""

import json
import sqlite3
import time
import tomllib
from contextlib import closing
from typing import Any

import pytest
from attrs import evolve
from nacl.signing import SigningKey
from OpenSSL import SSL
from twisted.internet.error import ConnectionLost

from broker.sessions.store.interface import State, StoreUnavailable
from gitmoat.identity.grant import sign_grant
from gitmoat.wire.git.pktline import FLUSH, format_data
from gitmoat.wire.git.smarthttp import Service
from gitmoat.wire.http.heads import Chunked, Length
from tests.fakes.broker_scene import Scene
from tests.fakes.broker_world import PACK_HEAD, POLICY, Asker, Sidecar, World, commands, post
from tests.fakes.fake_upstream import ok
from tests.fakes.full_store import FullStore
from tests.fakes.reactor_tests import on_reactor

REFS = ok(Service.UPLOAD_PACK, "advertisement", format_data(b"version 2\n") + FLUSH)
ENDLESS = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-result\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
OTHER_HOST = SigningKey(bytes(31) + b"o")


async def tell(host: Asker, what: str, **fields: Any) -> Any:
    return await host.ask("POST", f"/host/{what}", (), json.dumps(fields).encode())


@on_reactor
async def test_a_key_nobody_vouched_for_does_not_get_in(scene: Scene) -> None:
    stranger = await _first_read_fails(scene.world, SigningKey.generate())
    assert stranger


async def _first_read_fails(world: World, key: SigningKey) -> bool:
    """In TLS 1.3 a refused client learns it with its first read."""
    try:
        sidecar: Sidecar = await world.connect(key, Sidecar)
    except (SSL.Error, ConnectionLost):
        return True
    return bool((await sidecar.refs()).error)


@on_reactor
async def test_a_grant_is_closed_until_it_is_activated(scene: Scene) -> None:
    scene.upstream.answers(REFS)
    sidecar = await scene.world.session(activate=False)
    closed = await sidecar.refs()
    assert closed.status == 503 and b"S102" in closed.data
    assert not scene.upstream.talks
    host = await scene.world.host()
    place = {"session": "session-1", "pid": 5, "netns": 77, "cgroup": 9}
    assert (await tell(host, "activate", **place)).status == 200
    assert (await sidecar.refs()).status == 200
    assert [one["session"] for one in scene.world.audit("session.activated")] == ["session-1"]


@on_reactor
async def test_a_session_cannot_ask_as_a_host_nor_a_host_as_a_session(scene: Scene) -> None:
    sidecar = await scene.world.session()
    host = await scene.world.host()
    for method, target in (
        ("GET", "/host/health"),
        ("GET", "/host/upstreams"),
        ("POST", "/host/revoke"),
        ("GET", "/"),
        ("DELETE", "/host/health"),
    ):
        body = b"{}" if method == "POST" else None
        assert (await sidecar.ask(method, target, (), body)).status == 404
    asked = await host.ask("GET", "/git/up/acme/app.git/info/refs?service=git-upload-pack")
    assert asked.status == 404


@on_reactor
async def test_a_host_learns_the_upstreams_and_the_brokers_health(scene: Scene) -> None:
    host = await scene.world.host()
    table = (await host.ask("GET", "/host/upstreams")).json()
    hosts = [f"localhost:{scene.upstream.port}"]
    assert table["upstreams"] == [{"name": "up", "hosts": hosts, "case_insensitive": False}]
    assert (await host.ask("GET", "/host/health")).json()["healthy"] is True


@on_reactor
async def test_a_grant_is_believed_once(scene: Scene) -> None:
    host = await scene.world.host()
    grant = scene.world.grant(SigningKey.generate())
    assert (await host.ask("POST", "/host/grant", (), grant)).json()["state"] == "closed"
    again = await host.ask("POST", "/host/grant", (), grant)
    assert (again.status, again.json()["code"]) == (409, "S104")
    fresh_key = scene.world.grant(SigningKey.generate(), counter=1, session="other")
    replay = await host.ask("POST", "/host/grant", (), fresh_key)
    assert (replay.status, replay.json()["code"]) == (409, "S104")
    assert [one["code"] for one in scene.world.audit("grant.refused")] == ["S104", "S104"]


@pytest.mark.parametrize(
    "changes",
    [
        {"host": "two"},
        {"audience": "another broker"},
        {"scope": {"version": 1, "surprise": 1}},
        {"scope": {}},
    ],
)
@on_reactor
async def test_a_grant_that_is_not_for_us_is_refused(scene: Scene, changes: dict[str, Any]) -> None:
    host = await scene.world.host()
    grant = scene.world.grant(SigningKey.generate(), **changes)
    refused = await host.ask("POST", "/host/grant", (), grant)
    assert (refused.status, refused.json()["code"]) == (403, "S103")
    assert list(scene.world.sessions.everyone()) == []


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("session = {}\nlater = 1", "later"),
        ("[limits]\nlater = 1", "limits.later"),
        ('[[git]]\nrepos = ["up:a"]\nfetch = true\nlater = 1', "git[0].later"),
        ("[[later]]\nid = 'one'", "later"),
    ],
)
@on_reactor
async def test_a_key_of_a_later_version_is_refused_by_its_name(
    scene: Scene, text: str, path: str
) -> None:
    host = await scene.world.host()
    scope = {"version": 1, "name": "p", **tomllib.loads(text)}
    signed = scene.world.grant(SigningKey.generate(), scope=scope)
    refused = await host.ask("POST", "/host/grant", (), signed)
    assert (refused.status, refused.json()["code"]) == (403, "S106")
    assert refused.json()["what"].endswith(f"does not know the key {path}")
    assert list(scene.world.sessions.everyone()) == []


@on_reactor
async def test_a_grant_under_another_signature_is_refused(scene: Scene) -> None:
    host = await scene.world.host()
    scene.world.host_key, real = OTHER_HOST, scene.world.host_key
    grant = scene.world.grant(SigningKey.generate())
    scene.world.host_key = real
    for signed in (grant, b"", b"x" * 100, sign_grant.__name__.encode() * 30):
        refused = await host.ask("POST", "/host/grant", (), signed)
        assert (refused.status, refused.json()["code"]) == (403, "S103")


@on_reactor
async def test_a_key_or_session_that_is_known_cannot_be_granted_again(scene: Scene) -> None:
    host = await scene.world.host()
    key = SigningKey.generate()
    assert (await host.ask("POST", "/host/grant", (), scene.world.grant(key))).status == 200
    same_key = scene.world.grant(key)
    same_name = scene.world.grant(SigningKey.generate(), session="session-1")
    for grant in (same_key, same_name):
        refused = await host.ask("POST", "/host/grant", (), grant)
        assert (refused.status, refused.json()["code"]) == (403, "S103")


@on_reactor
async def test_a_host_can_only_touch_its_own_sessions(scene: Scene) -> None:
    from gitmoat.identity.keyfile import public_text

    sidecar = await scene.world.session()
    scene.upstream.answers(REFS)
    scene.world.write_config(f'[host.two]\nkey = "{public_text(OTHER_HOST)}"\n')
    scene.world.broker.context.routes.reload()
    other: Asker = await scene.world.connect(OTHER_HOST)
    assert (await tell(other, "revoke", session="session-1")).status == 403
    place = {"session": "session-1", "pid": 1, "netns": 77, "cgroup": None}
    assert (await tell(other, "activate", **place)).status == 403
    assert (await sidecar.refs()).status == 200


@pytest.mark.parametrize(
    "fields",
    [
        {"session": "session-1", "pid": 1, "netns": 78, "cgroup": None},
        {"session": "nobody", "pid": 1, "netns": 77, "cgroup": None},
        {"session": "session-1", "pid": "1", "netns": 77, "cgroup": None},
        {"session": "session-1", "pid": 1, "cgroup": None},
        {"session": 1, "pid": 1, "netns": 77, "cgroup": None},
        {},
    ],
)
@on_reactor
async def test_an_activation_that_does_not_fit_changes_nothing(
    scene: Scene, fields: dict[str, Any]
) -> None:
    sidecar = await scene.world.session(activate=False)
    host = await scene.world.host()
    assert (await tell(host, "activate", **fields)).status in (400, 403)
    assert (await sidecar.refs()).status == 503


@on_reactor
async def test_a_revoked_session_is_told_so_and_cannot_come_back(scene: Scene) -> None:
    sidecar = await scene.world.session()
    host = await scene.world.host()
    assert (await tell(host, "revoke", session="session-1", reason="rm")).status == 200
    ended = await sidecar.refs()
    assert (ended.status, ended.header(b"content-type")) == (401, b"text/plain")
    assert b"S101" in ended.data
    again: Sidecar = await scene.world.connect(sidecar.key, Sidecar)
    assert (await again.push(commands("refs/heads/agent/a"))).status == 401
    place = {"session": "session-1", "pid": 1, "netns": 77, "cgroup": None}
    assert (await tell(host, "activate", **place)).status == 410
    assert not scene.upstream.talks
    assert [one["reason"] for one in scene.world.audit("session.revoked")] == ["rm"]


@on_reactor
async def test_a_revocation_cuts_a_running_fetch_at_once(scene: Scene) -> None:
    scene.upstream.on_request = lambda talk: talk.say(ENDLESS)
    sidecar = await scene.world.session()
    out, reply = sidecar.begin("POST", *post("acme/app", "git-upload-pack"), Length(4))
    out.write(b"0000")
    out.finish()
    await reply.started
    await tell(await scene.world.host(), "revoke", session="session-1")
    await reply.done
    assert b"S101" in reply.data
    await scene.pause()
    assert scene.upstream.talks[0].lost
    (outcome,) = scene.world.audit("git.outcome")
    assert outcome["code"] == "S101"


@on_reactor
async def test_a_revocation_cuts_a_running_push_at_once(scene: Scene) -> None:
    sidecar = await scene.world.session()
    out, reply = sidecar.begin_push(Chunked())
    out.write(commands("refs/heads/agent/a") + PACK_HEAD + bytes(1000))
    await scene.pause(0.2)
    await tell(await scene.world.host(), "revoke", session="session-1")
    await reply.done
    await scene.pause()
    assert scene.upstream.talks[0].lost and scene.upstream.bodies == []


@on_reactor
async def test_a_revocation_while_commands_arrive_answers_401(scene: Scene) -> None:
    sidecar = await scene.world.session()
    out, reply = sidecar.begin_push(Chunked())
    out.write(b"00")
    await scene.pause()
    await tell(await scene.world.host(), "revoke", session="session-1")
    await reply.done
    assert reply.status == 401 and b"S101" in reply.data


@on_reactor
async def test_the_hard_end_needs_no_sweep_and_cuts_what_runs(scene: Scene) -> None:
    scene.upstream.on_request = lambda talk: talk.say(ENDLESS)
    sidecar = await scene.world.session()
    out, reply = sidecar.begin("POST", *post("acme/app", "git-upload-pack"), Length(4))
    out.write(b"0000")
    out.finish()
    await reply.started
    scene.world.now += 3600
    second: Sidecar = await scene.world.connect(sidecar.key, Sidecar)
    ended = await second.refs()
    assert ended.status == 401 and b"S101" in ended.data
    assert not reply.done.called
    scene.world.broker.tick()
    await reply.done
    assert b"S101" in reply.data
    assert [one["reason"] for one in scene.world.audit("session.ended")] == ["expired"]


@on_reactor
async def test_an_end_that_cannot_be_stored_keeps_no_other_session_alive(scene: Scene) -> None:
    world = scene.world
    sessions = world.broker.context.sessions
    disk = FullStore(sessions._store)
    sessions._store = disk
    for _ in range(3):
        await world.session()
    first, *others = sessions.living()
    with pytest.raises(StoreUnavailable):
        await world.broker.context.grants.revoke([first], "test")
    world.now += 3600
    world.broker.tick()
    assert sessions.living() == []
    ended = [one["session"] for one in world.audit("session.ended")]
    assert ended == [one.id for one in others]
    assert State.ENDED not in [one.state for one in disk.store.load().sessions]
    disk.full = False
    world.broker.tick()
    assert [one.state for one in disk.store.load().sessions] == [State.ENDED] * 3


@on_reactor
async def test_only_successful_operations_keep_a_session_awake(scene: Scene) -> None:
    scene.upstream.answers(REFS)
    sidecar = await scene.world.session()
    for _ in range(2):
        scene.world.now += 1700
        scene.world.broker.tick()
        assert (await sidecar.refs()).status == 200
    sidecar = await scene.world.session()
    scene.world.now += 1700
    assert (await sidecar.refs("acme/other")).status == 404
    scene.world.now += 200
    assert (await sidecar.refs()).status == 401


@on_reactor
async def test_sessions_survive_a_restart_and_revocations_too(scene: Scene) -> None:
    scene.upstream.answers(REFS)
    world = scene.world
    first, second = await world.session(), await world.session()
    await tell(await world.host(), "revoke", session="session-2")
    await world.stop()
    world.start()
    again: Sidecar = await world.connect(first.key, Sidecar)
    assert (await again.refs()).status == 200
    ended: Sidecar = await world.connect(second.key, Sidecar)
    assert (await ended.refs()).status == 401
    grant = world.grant(SigningKey.generate(), counter=1)
    replay = await (await world.host()).ask("POST", "/host/grant", (), grant)
    assert replay.json()["code"] == "S104"


def no_space(descriptor: int) -> None:
    raise OSError(28, "No space left on device")


@on_reactor
async def test_without_an_audit_nothing_is_granted_or_activated_but_a_revocation_holds(
    scene: Scene,
) -> None:
    host, journal = await scene.world.host(), scene.world.opened.journal
    waiting = await scene.world.session(activate=False)
    running = await scene.world.session()
    works, journal._sync = journal._sync, no_space
    grant = scene.world.grant(SigningKey.generate())
    refused = [
        await host.ask("POST", "/host/grant", (), grant),
        await tell(host, "activate", session="session-1", pid=1, netns=77, cgroup=None),
        await tell(host, "revoke", session="session-2"),
    ]
    assert [(one.status, one.json()["code"]) for one in refused] == [(503, "B103")] * 3
    journal._sync = works
    assert (await waiting.refs()).status == 503
    assert (await running.refs()).status == 401
    place = {"session": "session-3", "pid": 1, "netns": 77, "cgroup": None}
    assert (await tell(host, "activate", **place)).status == 410


@on_reactor
async def test_a_sidecars_reports_are_recorded_as_such_and_capped(scene: Scene) -> None:
    sidecar = await scene.world.session()
    report = {"event": "peer-refused", "uid": 5, "code": "H101"}
    told = await sidecar.ask("POST", "/report", (), json.dumps(report).encode())
    assert told.status == 200
    (event,) = scene.world.audit("peer.refused")
    assert (event["reported"], event["peer_uid"], event["sandbox"]) == (True, 5, "sb1")
    refused = {"event": "git-refused", "repo": "x/\u001b", "code": "G101", "req": "0" * 16}
    await sidecar.ask("POST", "/report", (), json.dumps(refused).encode())
    (event,) = scene.world.audit("git.decision")
    assert (event["reported"], event["repo"]) == (True, "x/\\x1b")
    for bad in (b"", b"[]", b'{"event":"x"}', b'{"event":"peer-refused","code":"Z1"}', b"x" * 5000):
        fresh: Sidecar = await scene.world.connect(sidecar.key, Sidecar)
        assert (await fresh.ask("POST", "/report", (), bad)).status in (400, 413)
    statuses = []
    for _ in range(70):
        told = await sidecar.ask("POST", "/report", (), json.dumps(report).encode())
        statuses.append(told.status)
    assert set(statuses) == {200, 429}


@pytest.mark.parametrize(
    ("bound", "word"),
    [
        ('repos = ["up:acme/gate"]', "up:acme/app"),
        ("push = false", "pushing"),
        ('allow = ["egress"]', "[[git]] rules"),
    ],
)
@on_reactor
async def test_a_scope_above_the_hosts_ceiling_is_refused(
    scene: Scene, bound: str, word: str
) -> None:
    scene.world.write_config(bound)  # the last table of the file is the host's
    scene.world.broker.context.routes.reload()
    host = await scene.world.host()
    refused = await host.ask("POST", "/host/grant", (), scene.world.grant(SigningKey.generate()))
    assert (refused.status, refused.json()["code"]) == (403, "S107")
    (event,) = scene.world.audit("grant.refused")
    assert word in event["reason"]
    assert list(scene.world.sessions.everyone()) == []


@on_reactor
async def test_a_session_lasts_no_longer_than_its_hosts_enrolment_says(scene: Scene) -> None:
    scene.upstream.answers(REFS)
    world = scene.world
    world.write_config('ttl = "2h"')
    world.broker.context.routes.reload()
    sidecar = await world.session(POLICY.replace('"30m"', '"9h"'))
    (session,) = world.sessions.living()
    assert session.stored.latest == world.now + 2 * 3600
    host = await world.host()
    far = await tell(host, "renew", sandbox="sb1", ttl=2 * 3600 + 1)
    assert (far.status, far.json()["code"]) == (409, "S105")
    assert (await tell(host, "renew", sandbox="sb1", ttl=2 * 3600)).status == 200
    world.now += 2 * 3600 - 1
    assert (await sidecar.refs()).status == 200
    world.now += 2
    assert (await sidecar.refs()).status == 401


@on_reactor
async def test_a_renewal_keeps_to_what_the_enrolment_says_by_now(scene: Scene) -> None:
    world = scene.world
    await world.session()
    (session,) = world.sessions.living()
    before = session.stored
    host = await world.host()
    world.write_config('ttl = "1h"')
    world.broker.context.routes.reload()
    far = await tell(host, "renew", sandbox="sb1", ttl=3601)
    assert (far.status, far.json()["code"]) == (409, "S105")
    world.write_config("push = false")
    world.broker.context.routes.reload()
    above = await tell(host, "renew", sandbox="sb1", ttl=60)
    assert (above.status, above.json()["code"]) == (403, "S107")
    assert session.stored == before and world.audit("session.renewed") == []


@on_reactor
async def test_no_extension_goes_past_the_policys_max_ttl(scene: Scene) -> None:
    scene.upstream.answers(REFS)
    world = scene.world
    policy = POLICY.replace('ttl = "8h"', 'ttl = "1h"\nmax_ttl = "3h"').replace('"30m"', '"9h"')
    sidecar = await world.session(policy)
    host = await world.host()
    told = await tell(host, "renew", sandbox="sb1", ttl=2 * 3600)
    assert (told.status, told.json()) == (200, {"session": "session-1", "ttl": 7200})
    world.now += 3600
    assert (await sidecar.refs()).status == 200
    far = await tell(host, "renew", sandbox="sb1", ttl=3 * 3600 + 1)
    assert (far.status, far.json()["code"]) == (409, "S105")
    assert (await tell(host, "renew", sandbox="sb1", ttl=3 * 3600)).status == 200
    world.now += 3 * 3600 - 1
    assert (await sidecar.refs()).status == 200
    world.now += 2
    assert (await sidecar.refs()).status == 401
    renewed = world.audit("session.renewed")
    assert [each["reason"] for each in renewed] == ["for 2h", "for 3h"]


@pytest.mark.parametrize("reason", ["expired", "idle"])
@on_reactor
async def test_a_sandbox_goes_on_with_another_session(scene: Scene, reason: str) -> None:
    scene.upstream.answers(REFS)
    world = scene.world
    long = POLICY if reason == "idle" else POLICY.replace('"8h"', '"1h"').replace('"30m"', '"9h"')
    first = await world.session(long)
    host = await world.host()
    standing = (await tell(host, "sessions", sandboxes=["sb1", "none"])).json()["sessions"]
    assert list(standing) == ["sb1"] and standing["sb1"]["left"] > 0
    world.now += 1801 if reason == "idle" else 3601
    standing = (await tell(host, "sessions", sandboxes=["sb1"])).json()["sessions"]
    assert standing == {"sb1": {"over": reason, "renewable": True}}  # no tick came before it
    told = await tell(host, "renew", sandbox="sb1", ttl=600)
    assert (told.status, told.json()) == (200, {"session": None, "ttl": 600})
    assert (await first.refs()).status == 401
    second = await world.session(long)
    assert (await second.refs()).status == 200
    (event,) = world.audit("session.renewed")
    assert (event["sandbox"], event["reason"]) == ("sb1", f"for 10m, after: {reason}")


@pytest.mark.parametrize("how", ["revoked", "quota"])
@on_reactor
async def test_a_revocation_and_a_used_up_quota_are_final(scene: Scene, how: str) -> None:
    world = scene.world
    await world.session()
    (session,) = world.sessions.living()
    world.sessions.end(session, how)
    host = await world.host()
    told = await tell(host, "renew", sandbox="sb1", ttl=60)
    assert (told.status, told.json()["code"]) == (410, "S101")
    standing = (await tell(host, "sessions", sandboxes=["sb1"])).json()["sessions"]
    assert standing == {"sb1": {"over": how, "renewable": False}}
    assert world.audit("session.renewed") == []


@on_reactor
async def test_a_host_renews_and_sees_its_own_sandboxes_only(scene: Scene) -> None:
    world = scene.world
    await world.session()
    (session,) = world.sessions.living()
    session.stored = evolve(session.stored, host="another")
    host = await world.host()
    assert (await tell(host, "sessions", sandboxes=["sb1"])).json() == {"sessions": {}}
    before = session.stored
    assert (await tell(host, "renew", sandbox="sb1", ttl=60)).json()["session"] is None
    assert session.stored == before


@on_reactor
async def test_a_new_sidecar_is_no_new_life(scene: Scene) -> None:
    """The host says how long the sandbox has run: max_ttl is counted from its start."""
    policy = POLICY.replace('ttl = "8h"', 'ttl = "1h"\nmax_ttl = "2h"')
    host = await scene.world.host()
    grant = scene.world.grant(SigningKey.generate(), policy, ttl=3600, elapsed=5400)
    assert (await host.ask("POST", "/host/grant", (), grant)).status == 200
    session = scene.world.sessions.by_id("session-1")
    assert session is not None
    assert session.stored.deadline == session.stored.latest == scene.world.now + 1800
    assert (await tell(host, "renew", sandbox="sb1", ttl=1801)).json()["ttl"] == 1801


@on_reactor
async def test_a_rebooted_hosts_sessions_end_with_its_first_grant(scene: Scene) -> None:
    scene.upstream.answers(REFS)
    sidecar = await scene.world.session()
    assert (await sidecar.refs()).status == 200
    host = await scene.world.host()
    grant = scene.world.grant(SigningKey.generate(), boot_id="the next boot")
    assert (await host.ask("POST", "/host/grant", (), grant)).status == 200
    assert (await sidecar.refs()).status == 401
    assert scene.world.audit("session.revoked")[0]["reason"] == "its host was rebooted"
    again = scene.world.grant(SigningKey.generate(), boot_id="the next boot", sandbox="sb1")
    assert (await host.ask("POST", "/host/grant", (), again)).json()["state"] == "closed"


@on_reactor
async def test_nothing_is_granted_while_the_clock_is_earlier_than_it_was(scene: Scene) -> None:
    world = scene.world
    await world.opened.store.keep_wall(int(time.time()) + 3600)
    await world.stop()
    world.start()
    host = await world.host()
    refused = await host.ask("POST", "/host/grant", (), world.grant(SigningKey.generate()))
    assert (refused.status, refused.json()["code"]) == (403, "S108")
    assert "earlier than it was" in world.audit("grant.refused")[0]["reason"]


@on_reactor
async def test_a_revocation_outlives_a_reboot(scene: Scene) -> None:
    world = scene.world
    await world.session()
    world.broker.context.grants.revoke([world.sessions.living()[0]], "a test")
    await world.stop()
    with closing(sqlite3.connect(world.paths.broker_store)) as store:
        store.execute("UPDATE session SET broker_boot = 'the boot before'")
        store.commit()
    world.start()
    assert list(world.sessions.everyone()) == []
    host = await world.host()
    grant = world.grant(SigningKey.generate(), sandbox="sb1")
    answer = await host.ask("POST", "/host/grant", (), grant)
    assert answer.json()["state"] == "ended"

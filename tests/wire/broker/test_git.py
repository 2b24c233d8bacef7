"""Fetching through the broker: what the upstream sees, and what the sidecar sees of it."""

import gzip
from functools import partial
from secrets import token_hex
from threading import Event

import pytest
import trustme
from twisted.internet.defer import ensureDeferred

from gitmoat.audit.journal import Journal
from gitmoat.wire.git.pktline import FLUSH, format_data
from gitmoat.wire.git.smarthttp import Service
from gitmoat.wire.http.heads import Length
from tests.fakes.broker_scene import Scene
from tests.fakes.broker_traffic import ADVERTISEMENT, REFS, UPLOAD, begin_refs
from tests.fakes.broker_world import (
    BASIC,
    ID,
    PACK_HEAD,
    PASSWORD,
    POLICY,
    Sidecar,
    commands,
    post,
)
from tests.fakes.fake_upstream import FakeUpstream, Talk, ok
from tests.fakes.reactor_tests import on_reactor
from tests.waiting import PATIENCE

CHUNKED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-result\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)


def seen(scene: Scene, requests: int) -> bool:
    return len(scene.upstream.heads) == requests


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


@on_reactor
async def test_the_upstream_sees_a_fresh_head_with_our_credential_and_nothing_else(
    scene: Scene,
) -> None:
    scene.upstream.answers(ADVERTISEMENT)
    sidecar = await scene.world.session()
    stolen = [(b"Authorization", b"Basic c3RvbGVu"), (b"Cookie", b"a=b"), (b"X-Odd", b"1")]
    reply = await sidecar.refs(headers=stolen)
    assert (reply.status, reply.data) == (200, REFS)
    assert reply.header(b"content-type") == b"application/x-git-upload-pack-advertisement"
    port = scene.upstream.port
    assert scene.upstream.heads == [
        b"GET /acme/app.git/info/refs?service=git-upload-pack HTTP/1.1\r\n"
        b"Host: localhost:%d\r\n"
        b"User-Agent: git/2.39 (gitmoat)\r\n"
        b"Accept: */*\r\n"
        b"Git-Protocol: version=2\r\n"
        b"Authorization: %s" % (port, BASIC)
    ]


@pytest.mark.parametrize(
    ("setting", "paths"),
    [
        ("keep", [b"/acme/app.git", b"/acme/app"]),
        ("add", [b"/acme/app.git", b"/acme/app.git"]),
        ("remove", [b"/acme/app", b"/acme/app"]),
    ],
)
@on_reactor
async def test_a_server_is_asked_for_a_repository_as_it_knows_it(
    scene: Scene, setting: str, paths: list[bytes]
) -> None:
    """Whichever spelling is asked for, it is one repository of the policy and of the audit."""
    scene.world.upstream_keys = f'git_suffix = "{setting}"'
    scene.world.write_config()
    scene.world.broker.context.routes.reload()
    sidecar = await scene.world.session()
    for suffix in (".git", ""):
        scene.upstream.answers(ADVERTISEMENT)
        assert (await sidecar.refs(suffix=suffix)).status == 200
        assert (await sidecar.refs("acme/x-secret", suffix=suffix)).status == 404
    asked = [head.split(b" ")[1] for head in scene.upstream.heads]
    assert asked == [path + b"/info/refs?service=git-upload-pack" for path in paths]
    assert {one["repo"] for one in scene.world.audit("git.outcome")} == {"up:acme/app"}


@on_reactor
async def test_the_upstreams_own_headers_go_nowhere(scene: Scene) -> None:
    evil = (b"Set-Cookie: a=b", b"WWW-Authenticate: Basic", b"X-Evil: 1", b"Connection: close")
    scene.upstream.answers(ok(UPLOAD, "advertisement", REFS, *evil))
    reply = await (await scene.world.session()).refs()
    assert reply.head is not None
    assert {name for name, _ in reply.head.headers} == {
        b"content-type",
        b"cache-control",
        b"gitmoat-request-id",
        b"content-length",
    }


@on_reactor
async def test_a_fetch_streams_both_ways(scene: Scene) -> None:
    pack = format_data(b"packfile\n") + format_data(b"\x01PACK" + bytes(5000)) + FLUSH
    scene.upstream.answers(ok(UPLOAD, "result", pack))
    sidecar = await scene.world.session()
    reply = await sidecar.fetch(b"0011command=fetch0000")
    assert (reply.status, reply.data) == (200, pack)
    assert scene.upstream.bodies == [b"0011command=fetch0000"]
    assert b"POST /acme/app.git/git-upload-pack HTTP/1.1" in scene.upstream.heads[0]
    (outcome,) = scene.world.audit("git.outcome")
    assert (outcome["bytes_up"], outcome["bytes_down"]) == (21, len(pack))
    assert (outcome["op"], outcome["req"]) == ("fetch", ID)


@on_reactor
async def test_unknown_forbidden_and_missing_upstream_look_exactly_the_same(scene: Scene) -> None:
    scene.upstream.answers(b"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nno!")
    sidecar = await scene.world.session()
    replies = [
        await sidecar.refs("acme/other"),
        await sidecar.refs("acme/x-secret"),
        await sidecar.refs("acme/gate"),
        await sidecar.refs("acme/app"),
        await sidecar.ask(
            "GET",
            "/git/nowhere/acme/app.git/info/refs?service=git-upload-pack",
            [(b"Gitmoat-Request-Id", ID.encode()), (b"Gitmoat-Tier", b"untrusted")],
        ),
    ]
    assert [one.status for one in replies] == [404] * 5
    assert len({one.data for one in replies}) == 1
    assert len({one.head.headers for one in replies if one.head}) == 1
    assert b"G101" in replies[0].data and b"up:acme/app" in replies[0].data
    assert len(scene.upstream.heads) == 1


@on_reactor
async def test_the_owner_alone_is_told_that_the_server_has_no_such_repository(scene: Scene) -> None:
    scene.upstream.answers(b"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nno!")
    sidecar = await scene.world.session()
    missing = await sidecar.refs("acme/gate", tier="helper")
    forbidden = await sidecar.refs("acme/other", tier="helper")
    assert (missing.status, forbidden.status) == (404, 404)
    assert b"(G101)\nthe git server says not found, or our credential" in missing.data
    assert b"not found" not in forbidden.data
    assert b"not found" not in (await sidecar.refs("acme/app", tier="untrusted")).data


@on_reactor
async def test_the_tier_is_decided_again(scene: Scene) -> None:
    scene.upstream.answers(ADVERTISEMENT)
    sidecar = await scene.world.session()
    assert (await sidecar.refs("acme/gate", tier="untrusted")).status == 404
    assert (await sidecar.refs("acme/gate", tier="helper")).status == 200
    assert [one["decision"] for one in scene.world.audit("git.decision")] == ["deny", "allow"]


@pytest.mark.parametrize("headers", [{"tier": "root"}, {"tier": "Helper"}, {"number": "x"}])
@on_reactor
async def test_a_request_without_a_proper_envelope_is_malformed(
    scene: Scene, headers: dict[str, str]
) -> None:
    sidecar = await scene.world.session()
    assert (await sidecar.refs(**headers)).status == 400
    assert not scene.upstream.talks


BAD_ANSWERS = {
    "a redirect": (b"HTTP/1.1 302 Found\r\nLocation: https://evil.example/\r\n\r\n", b"U103"),
    "a redirect to itself": (
        b"HTTP/1.1 308 X\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n",
        b"U103",
    ),
    "unauthorised": (b"HTTP/1.1 401 X\r\nContent-Length: 0\r\n\r\n", b"U102"),
    "forbidden": (b"HTTP/1.1 403 X\r\nContent-Length: 6\r\n\r\nsecret", b"U109"),
    "an error": (b"HTTP/1.1 500 X\r\nContent-Length: 6\r\n\r\nsecret", b"U110"),
    "nothing new": (b"HTTP/1.1 304 X\r\n\r\n", b"U103"),
    "html": (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 0\r\n\r\n", b"U104"),
    "no type": (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"U104"),
    "compressed": (ok(UPLOAD, "advertisement", b"x", b"Content-Encoding: gzip"), b"U104"),
    "two framings": (
        ok(UPLOAD, "advertisement", REFS, b"Transfer-Encoding: chunked"),
        b"U104",
    ),
    "two lengths": (ok(UPLOAD, "advertisement", REFS, b"Content-Length: 1"), b"U104"),
    "an upgrade": (b"HTTP/1.1 101 X\r\n\r\n", b"U104"),
    "no http": (b"SSH-2.0-OpenSSH_9.2\r\n", b"U104"),
    "too long": (ok(UPLOAD, "advertisement", bytes(2 << 20)), b"G302"),
}


@pytest.mark.parametrize("case", BAD_ANSWERS)
@on_reactor
async def test_a_strange_answer_is_refused_in_our_own_words(scene: Scene, case: str) -> None:
    answer, code = BAD_ANSWERS[case]
    scene.upstream.answers(answer)
    sidecar = await scene.world.session()
    reply = await sidecar.refs()
    assert (reply.status, reply.header(b"content-type")) == (502, b"text/plain")
    assert code in reply.data and b"secret" not in reply.data
    assert len(scene.upstream.heads) == 1
    fetched = await sidecar.fetch()
    assert fetched.status == 200 and fetched.data[4:8] == b"ERR "


MOVED = (
    b"HTTP/1.1 301 X\r\nContent-Length: 0\r\n"
    b"Location: https://localhost:%d/%s/info/refs?service=git-upload-pack\r\n\r\n"
)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("acme/gate.git", b"use this name instead: acme/gate.git\n"),
        ("acme/app", b"use this name instead: acme/app\n"),
        ("acme/x-secret.git", b""),
        ("other/app.git", b""),
    ],
)
@on_reactor
async def test_a_repository_that_was_renamed_is_told_if_the_policy_allows_its_new_name(
    scene: Scene, name: str, told: bytes
) -> None:
    scene.upstream.answers(MOVED % (scene.upstream.port, name.encode()))
    sidecar = await scene.world.session()
    reply = await sidecar.refs(tier="helper")
    assert reply.data == (
        b"gitmoat: the git server has moved this repository (U111)\n%srequest id: %s\n"
        % (told, ID.encode())
    )
    assert len(scene.upstream.heads) == 1, "it is not followed"
    (outcome,) = scene.world.audit("git.outcome")
    assert (outcome["code"], outcome["reason"]) == ("U111", f"moved to up:{name}")


@on_reactor
async def test_a_new_name_that_another_tier_may_see_is_not_told(scene: Scene) -> None:
    scene.upstream.answers(MOVED % (scene.upstream.port, b"acme/gate.git"))
    told = (await (await scene.world.session()).refs(tier="untrusted")).data
    assert b"U111" in told and b"acme/gate" not in told


def elsewhere(scene: Scene, upstream: FakeUpstream) -> None:
    """Point the configuration at another upstream."""
    scene.world.upstream_port = upstream.port
    scene.world.write_config()
    scene.world.broker.context.routes.reload()


@on_reactor
async def test_a_certificate_of_another_authority_is_refused(scene: Scene) -> None:
    other = FakeUpstream(scene.world.reactor, ca=trustme.CA())
    elsewhere(scene, other)
    reply = await (await scene.world.session()).refs()
    assert reply.status == 502 and b"U106" in reply.data
    assert other.heads == []
    await other.close()


@on_reactor
async def test_a_certificate_for_another_name_is_refused(scene: Scene) -> None:
    other = FakeUpstream(scene.world.reactor, name="git.example")
    elsewhere(scene, other)
    reply = await (await scene.world.session()).refs()
    assert reply.status == 502 and b"U106" in reply.data
    assert other.heads == []
    await other.close()


@on_reactor
async def test_an_upstream_that_is_not_there_is_unreachable(scene: Scene) -> None:
    await scene.upstream.close()
    reply = await (await scene.world.session()).refs()
    assert reply.status == 502 and b"U101" in reply.data
    (outcome,) = scene.world.audit("git.outcome")
    assert outcome["reason"] == "the connection was refused: nobody listens there"


@on_reactor
async def test_an_upstream_that_says_nothing_is_given_up(scene: Scene) -> None:
    reply = await (await scene.world.session()).refs()
    assert reply.status == 502 and b"U101" in reply.data
    await scene.pause()
    assert scene.upstream.talks[0].lost


@on_reactor
async def test_a_credential_that_cannot_be_read_stops_before_the_upstream(scene: Scene) -> None:
    sidecar = await scene.world.session()
    (scene.world.paths.etc / "token").unlink()
    reply = await sidecar.refs()
    assert reply.status == 502 and b"U105" in reply.data
    assert str(scene.world.paths.etc).encode() not in reply.data
    assert not scene.upstream.talks


@on_reactor
async def test_a_rotated_credential_is_used_at_once(scene: Scene) -> None:
    scene.upstream.answers(ADVERTISEMENT)
    sidecar = await scene.world.session()
    await sidecar.refs()
    scene.world.write("fresh", "rotated", 0o600, owner=1999999999).rename(
        scene.world.paths.etc / "token"
    )
    await sidecar.refs()
    assert BASIC in scene.upstream.heads[0] and BASIC not in scene.upstream.heads[1]


@on_reactor
async def test_a_connection_to_the_upstream_is_used_again(scene: Scene) -> None:
    scene.upstream.answers(ADVERTISEMENT)
    sidecar = await scene.world.session()
    for _ in range(3):
        assert (await sidecar.refs()).status == 200
    assert len(scene.upstream.talks) == 1
    assert len(scene.upstream.heads) == 3


@on_reactor
async def test_a_connection_to_the_upstream_is_of_one_session_only(scene: Scene) -> None:
    scene.upstream.answers(ADVERTISEMENT)
    for _ in range(2):
        await (await scene.world.session()).refs()
    assert len(scene.upstream.talks) == 2


@on_reactor
async def test_a_connection_to_the_upstream_is_of_one_credential_only(scene: Scene) -> None:
    scene.upstream.answers(ADVERTISEMENT)
    sidecar = await scene.world.session()
    await sidecar.refs()
    old = (scene.world.paths.etc / "token").read_text()
    for password in ("rotated", old):
        scene.world.write("fresh", password, 0o600, owner=1999999999).rename(
            scene.world.paths.etc / "token"
        )
        await sidecar.refs()
    assert len(scene.upstream.talks) == 2
    used = [BASIC in head for head in scene.upstream.heads]
    assert used == [True, False, True]


@on_reactor
async def test_as_many_connections_are_kept_as_a_session_used_at_a_time(scene: Scene) -> None:
    first = await scene.world.session()
    links = [first, *[await scene.world.connect(first.key, Sidecar) for _ in range(2)]]
    for number in (1, 2, 3):
        asked = [begin_refs(link) for link in links]
        await scene.until(partial(seen, scene, number * len(links)))
        for talk in scene.upstream.talks:
            talk.say(ADVERTISEMENT)
        assert [(await each.done).status for each in asked] == [200] * len(links)
    assert len(scene.upstream.talks) == len(links)


@on_reactor
async def test_bytes_behind_an_answer_end_the_connection_they_came_on(scene: Scene) -> None:
    scene.upstream.answers(ADVERTISEMENT + ADVERTISEMENT)
    sidecar = await scene.world.session()
    assert (await sidecar.refs()).data == REFS
    assert (await sidecar.refs()).data == REFS
    assert len(scene.upstream.talks) == 2


@on_reactor
async def test_a_get_on_a_connection_that_was_just_closed_is_tried_once_more(scene: Scene) -> None:
    def second_is_cut(talk: Talk) -> None:
        if len(scene.upstream.heads) == 2:
            talk.abort()
        else:
            talk.say(ADVERTISEMENT)

    scene.upstream.on_request = second_is_cut
    sidecar = await scene.world.session()
    assert (await sidecar.refs()).status == 200
    assert (await sidecar.refs()).status == 200
    assert (len(scene.upstream.heads), len(scene.upstream.talks)) == (3, 2)


@on_reactor
async def test_a_post_is_never_repeated(scene: Scene) -> None:
    scene.upstream.on_request = lambda talk: talk.abort()
    reply = await (await scene.world.session()).fetch()
    assert reply.data[4:8] == b"ERR " and b"U101" in reply.data
    assert len(scene.upstream.heads) == 1


@on_reactor
async def test_a_post_on_a_connection_that_was_kept_is_not_repeated_either(scene: Scene) -> None:
    scene.upstream.answers(ADVERTISEMENT)
    sidecar = await scene.world.session()
    assert (await sidecar.refs()).status == 200
    scene.upstream.on_request = lambda talk: talk.abort()
    assert b"U101" in (await sidecar.fetch()).data
    assert (len(scene.upstream.heads), len(scene.upstream.talks)) == (2, 1)


@on_reactor
async def test_escapes_in_progress_text_do_not_reach_the_terminal(scene: Scene) -> None:
    body = format_data(b"packfile\n") + format_data(b"\x02\x1b]0;owned\x07\n") + FLUSH
    scene.upstream.answers(ok(UPLOAD, "result", body))
    reply = await (await scene.world.session()).fetch()
    assert reply.data == body.replace(b"\x1b", b"?").replace(b"\x07", b"?")


@on_reactor
async def test_a_fetch_over_the_limit_ends_with_a_message_and_a_cut_upstream(scene: Scene) -> None:
    piece = chunk(format_data(b"\x01" + bytes(60000)))
    scene.upstream.on_request = lambda talk: talk.say(CHUNKED + piece * 30)
    sidecar = await scene.world.session()
    reply = await sidecar.fetch()
    assert reply.status == 200 and not reply.error
    assert (
        reply.data.endswith(FLUSH) and b"\x03gitmoat: the fetch is too large (G302)" in reply.data
    )
    assert 1 << 20 <= len(reply.data) < (1 << 20) + 70000
    await scene.pause()
    assert scene.upstream.talks[0].lost
    (outcome,) = scene.world.audit("git.outcome")
    assert outcome["code"] == "G302"
    scene.upstream.answers(ADVERTISEMENT)
    assert (await sidecar.refs()).status == 200


def breaks_off(scene: Scene, data: bytes) -> None:
    """Make the upstream say the beginning of an answer, then vanish."""

    def half(talk: Talk) -> None:
        talk.say(CHUNKED + chunk(data))
        scene.world.reactor.callLater(0.05, talk.abort)

    scene.upstream.on_request = half


@on_reactor
async def test_an_answer_cut_inside_a_pkt_is_cut_below_too(scene: Scene) -> None:
    breaks_off(scene, format_data(b"\x01" + bytes(100))[:-1])
    reply = await (await scene.world.session()).fetch()
    assert reply.status == 200 and reply.error
    (outcome,) = scene.world.audit("git.outcome")
    assert outcome["code"] == "U101"


@on_reactor
async def test_an_answer_cut_between_two_pkts_ends_with_a_message(scene: Scene) -> None:
    breaks_off(scene, format_data(b"\x01" + bytes(100)))
    reply = await (await scene.world.session()).fetch()
    assert reply.status == 200 and not reply.error
    assert b"\x03gitmoat: the git server cannot be reached (U101)" in reply.data
    (outcome,) = scene.world.audit("git.outcome")
    assert outcome["code"] == "U101"


@on_reactor
async def test_the_record_is_on_disk_before_the_upstream_hears_anything(scene: Scene) -> None:
    seen: list[list[str]] = []

    def look(talk: Talk) -> None:
        seen.append([one["decision"] for one in scene.world.audit("git.decision")])
        talk.say(ADVERTISEMENT)

    scene.upstream.on_request = look
    await (await scene.world.session()).refs()
    assert seen == [["allow"]]


@on_reactor
async def test_nothing_is_allowed_while_the_audit_cannot_be_written(scene: Scene) -> None:
    scene.upstream.answers(ADVERTISEMENT)
    sidecar = await scene.world.session()
    journal: Journal = scene.world.opened.journal
    works = journal._sync

    def fails(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    journal._sync = fails
    reply = await sidecar.refs()
    assert reply.status == 503 and b"B103" in reply.data
    assert not scene.upstream.talks
    journal._sync = works
    assert (await sidecar.refs()).status == 200


@on_reactor
async def test_a_slow_disk_holds_up_only_who_waits_for_it(scene: Scene) -> None:
    scene.upstream.answers(ADVERTISEMENT)
    first, second = await scene.world.session(), await scene.world.session()
    journal: Journal = scene.world.opened.journal
    works, asked, done = journal._sync, Event(), Event()

    def slow(descriptor: int) -> None:
        asked.set()
        assert done.wait(PATIENCE)

    journal._sync = slow
    waits = ensureDeferred(first.refs())
    await scene.until(asked.is_set)
    assert (await second.refs(repo="other/secret")).status == 404
    assert not waits.called and not scene.upstream.talks
    done.set()
    assert (await waits).status == 200
    journal._sync = works


@on_reactor
async def test_requests_over_the_rate_are_told_when_to_come_back(scene: Scene) -> None:
    scene.upstream.answers(ADVERTISEMENT)
    policy = POLICY.replace("git_requests_per_minute = 50", "git_requests_per_minute = 2")
    sidecar = await scene.world.session(policy)
    assert [(await sidecar.refs()).status for _ in range(10)] == [200] * 10
    for _ in range(3):
        limited = await sidecar.refs()
        assert limited.status == 429 and limited.header(b"retry-after") == b"30"
        assert b"(G303)\nagain in 30 s\n" in limited.data
    fetched = await sidecar.fetch()
    assert (
        fetched.status == 200 and b"ERR " in fetched.data and b"(G303)\nagain in " in fetched.data
    )
    scene.world.now += 60
    assert (await sidecar.refs()).status == 200
    denied = [one for one in scene.world.audit("git.decision") if one.get("code") == "G303"]
    assert len(denied) == 1


@on_reactor
async def test_a_request_over_the_rate_waits_for_its_turn_and_nobody_else_does(
    scene: Scene,
) -> None:
    """200 ms each: the broker's clock stands still, and only its timers run."""
    scene.upstream.answers(ADVERTISEMENT)
    policy = POLICY.replace("git_requests_per_minute = 50", "git_requests_per_minute = 300")
    eager, other = await scene.world.session(policy), await scene.world.session(policy)
    (session, _) = scene.world.sessions.living()
    while not session.budget._shared.wait(scene.world.now):
        session.budget._shared.spend()
    told: list[str] = []

    async def ask(sidecar: Sidecar, name: str) -> None:
        assert (await sidecar.refs()).status == 200
        told.append(name)

    second: Sidecar = await scene.world.connect(eager.key, Sidecar)
    first = ensureDeferred(ask(eager, "first"))
    await scene.until(lambda: session.budget.running == 1)
    waiting = ensureDeferred(ask(second, "second"))
    await scene.until(lambda: session.budget.running == 2)
    await ask(other, "other")
    await first
    await waiting
    assert told == ["other", "first", "second"]
    assert not scene.world.sessions.living()[0].denials.summary()


@on_reactor
async def test_a_push_over_the_rate_waits_unread_and_arrives_whole(scene: Scene) -> None:
    scene.upstream.answers(ok(Service.RECEIVE_PACK, "result", FLUSH))
    policy = POLICY.replace("git_requests_per_minute = 50", "git_requests_per_minute = 600")
    sidecar = await scene.world.session(policy)
    (session,) = scene.world.sessions.living()
    while not session.budget._shared.wait(scene.world.now):
        session.budget._shared.spend()
    asked = commands("refs/heads/agent/a")
    pack = PACK_HEAD + bytes(300_000)
    assert (await sidecar.push(asked + pack)).status == 200
    (body,) = scene.upstream.bodies
    assert body.endswith(pack)


@on_reactor
async def test_operations_at_the_same_time_are_limited(scene: Scene) -> None:
    policy = POLICY.replace("git_concurrency = 3", "git_concurrency = 1")
    sidecar = await scene.world.session(policy)
    scene.upstream.on_request = lambda talk: talk.say(CHUNKED)
    out, slow = sidecar.begin("POST", *post("acme/app", "git-upload-pack"), Length(4))
    out.write(b"0000")
    out.finish()
    await slow.started
    second: Sidecar = await scene.world.connect(sidecar.key, Sidecar)
    assert (await second.refs()).status == 429
    sidecar.connection.abort()
    await scene.pause()
    scene.upstream.answers(ADVERTISEMENT)
    assert (await second.refs()).status == 200


@on_reactor
async def test_lfs_and_other_endpoints_are_refused(scene: Scene) -> None:
    sidecar = await scene.world.session()
    headers = [(b"Gitmoat-Request-Id", ID.encode()), (b"Gitmoat-Tier", b"untrusted")]
    lfs = await sidecar.ask("POST", "/git/up/acme/app.git/info/lfs/objects/batch", headers, b"{}")
    assert lfs.status == 501 and "G102" in lfs.json()["message"]
    assert lfs.header(b"content-type") == b"application/vnd.git-lfs+json"
    dumb = await sidecar.ask("GET", "/git/up/acme/app.git/HEAD", headers)
    assert dumb.status == 404 and b"G103" in dumb.data
    assert not scene.upstream.talks


@on_reactor
async def test_the_password_appears_in_nothing_the_sidecar_or_the_audit_gets(scene: Scene) -> None:
    scene.upstream.on_request = lambda talk: talk.say(
        b"HTTP/1.1 500 X\r\nX-Echo: %s\r\nContent-Length: 40\r\n\r\n%s" % (BASIC, BASIC[:40])
    )
    reply = await (await scene.world.session()).refs()
    everything = (
        reply.data + scene.world.paths.broker_audit.read_bytes() + repr(reply.head).encode()
    )
    assert PASSWORD.encode() not in everything and BASIC[6:] not in everything


@on_reactor
async def test_a_compressed_request_does_not_unpack_to_a_multiple_that_git_never_makes(
    scene: Scene,
) -> None:
    scene.upstream.answers(ok(UPLOAD, "result", b"0000"))
    sidecar = await scene.world.session()
    target, headers = post("acme/app", "git-upload-pack")
    packed = [*headers, (b"Content-Encoding", b"gzip")]
    wants = b"".join(format_data(b"have %s\n" % token_hex(20).encode()) for _ in range(60_000))
    good = await sidecar.ask("POST", target, packed, gzip.compress(wants + b"0000"))
    assert good.status == 200 and scene.upstream.heads
    again: Sidecar = await scene.world.connect(sidecar.key, Sidecar)
    bomb = await again.ask("POST", target, packed, gzip.compress(bytes(32 << 20)))
    assert bomb.error or bomb.status == 413

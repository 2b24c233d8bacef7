"""Pushing through the broker: decided from the commands, before anything goes upstream."""

import pytest

from gitmoat.wire.git.pktline import FLUSH, format_data
from gitmoat.wire.git.smarthttp import Service
from gitmoat.wire.http.heads import Chunked, Length
from tests.fakes.broker_scene import Scene
from tests.fakes.broker_world import BASIC, ID, PACK_HEAD, POLICY, commands, post
from tests.fakes.fake_upstream import Talk, ok
from tests.fakes.reactor_tests import on_reactor

REPORT = (
    format_data(
        b"\x01" + format_data(b"unpack ok\n") + format_data(b"ok refs/heads/agent/a\n") + FLUSH
    )
    + FLUSH
)
DONE = ok(Service.RECEIVE_PACK, "result", REPORT)
AGENT = "refs/heads/agent/a"
MAIN = "refs/heads/main"
PACK = PACK_HEAD + bytes(range(256)) * 1000


@on_reactor
async def test_an_allowed_push_goes_up_in_our_own_spelling(scene: Scene) -> None:
    scene.upstream.answers(DONE)
    sidecar = await scene.world.session()
    odd = commands(AGENT, capabilities="report-status side-band-64k agent=evil/1 session-id=x")
    reply = await sidecar.push(odd + PACK)
    assert (reply.status, reply.data) == (200, REPORT)
    (body,) = scene.upstream.bodies
    assert body == commands(AGENT, capabilities="report-status side-band-64k agent=gitmoat") + PACK
    (head,) = scene.upstream.heads
    assert head.startswith(b"POST /acme/app.git/git-receive-pack HTTP/1.1\r\n") and BASIC in head
    assert b"Content-Length: %d\r\n" % len(body) in head


@on_reactor
async def test_a_chunked_push_arrives_whole_however_it_is_cut(scene: Scene) -> None:
    scene.upstream.answers(DONE)
    sidecar = await scene.world.session()
    out, reply = sidecar.begin_push(Chunked())
    data = commands(AGENT) + PACK
    for start in range(300):
        out.write(data[start : start + 1])
    out.write(data[300:])
    out.finish()
    await reply.done
    assert reply.data == REPORT
    assert scene.upstream.bodies == [data]
    assert b"Transfer-Encoding: chunked" in scene.upstream.heads[0]


@on_reactor
async def test_nothing_follows_a_push_on_its_connection(scene: Scene) -> None:
    scene.upstream.answers(DONE)
    sidecar = await scene.world.session()
    for number in (1, 2):
        assert (await sidecar.push(commands(AGENT) + PACK)).status == 200
        assert len(scene.upstream.talks) == number
    await scene.until(lambda: all(talk.lost for talk in scene.upstream.talks))


@on_reactor
async def test_no_connection_is_made_before_the_commands_are_known(scene: Scene) -> None:
    scene.upstream.answers(DONE)
    sidecar = await scene.world.session()
    out, reply = sidecar.begin_push(Chunked())
    data = commands(AGENT)
    out.write(data[:-1])
    await scene.pause()
    assert not scene.upstream.talks
    out.write(data[-1:] + PACK)
    out.finish()
    await reply.done
    assert reply.data == REPORT


@on_reactor
async def test_a_push_outside_the_grant_is_refused_before_any_byte_goes_upstream(
    scene: Scene,
) -> None:
    sidecar = await scene.world.session()
    reply = await sidecar.push(commands(AGENT, MAIN) + PACK)
    assert (reply.status, reply.header(b"content-type")) == (
        200,
        b"application/x-git-receive-pack-result",
    )
    assert b"ng refs/heads/main pushing to this ref is not allowed (G201)\n" in reply.data
    assert b"ng refs/heads/agent/a refused with the rest\n" in reply.data
    assert b"\x02gitmoat: pushing to this ref is not allowed (G201)\n" in reply.data
    assert not scene.upstream.talks
    (denied,) = scene.world.audit("push.decision")
    assert (denied["decision"], denied["code"], denied["req"]) == ("deny", "G201", ID)
    assert [one["ref"] for one in denied["refs"]] == [AGENT, MAIN]


def chunk_of(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def raw_push(framing: str) -> bytes:
    target, headers = post("acme/app", "git-receive-pack")
    lines = [f"POST {target} HTTP/1.1", "Host: gitmoat", framing]
    lines += [f"{name.decode()}: {value.decode()}" for name, value in headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


@on_reactor
async def test_a_refused_push_is_answered_early_and_its_pack_read_to_the_end(scene: Scene) -> None:
    sidecar = await scene.world.session()
    raw = await scene.world.connect_raw(sidecar.key)
    refused, size = commands(MAIN) + PACK_HEAD, 20 << 20
    raw.say(raw_push(f"Content-Length: {len(refused) + size}") + refused)
    await scene.until(lambda: b"ng refs/heads/main" in raw.heard)
    for _ in range(20):
        raw.say(bytes(1 << 20))
        await scene.pause(0.01)
    raw.heard = b""
    scene.upstream.answers(DONE)
    allowed = commands(AGENT) + PACK_HEAD
    raw.say(raw_push(f"Content-Length: {len(allowed)}") + allowed)
    await scene.until(lambda: REPORT in raw.heard)
    assert not raw.lost


DELETED = format_data(f"{'1' * 40} {'0' * 40} {AGENT}\0 report-status".encode()) + FLUSH
DELETING = POLICY.replace("create = true", "delete = true, create = true")


@pytest.mark.parametrize(
    "behind",
    [
        b"",
        b"PAC",
        b"PACK\0\0\0\1",
        b"PACK\0\0\0\4",
        b"pack\0\0\0\2",
        FLUSH + PACK,
        commands(MAIN) + PACK,
        bytes(1000),
    ],
)
@on_reactor
async def test_what_is_behind_the_commands_is_a_pack_or_nothing_goes_upstream(
    scene: Scene, behind: bytes
) -> None:
    reply = await (await scene.world.session()).push(commands(AGENT) + behind)
    assert reply.status == 400 and b"G203" in reply.data
    assert not scene.upstream.talks


@pytest.mark.parametrize("framing", [Chunked(), Length(len(DELETED))])
@on_reactor
async def test_a_deletion_has_no_pack_and_passes_when_it_is_whole(
    scene: Scene, framing: Chunked | Length
) -> None:
    scene.upstream.answers(DONE)
    sidecar = await scene.world.session(DELETING)
    out, reply = sidecar.begin_push(framing)
    out.write(DELETED[:50])
    await scene.pause()
    out.write(DELETED[50:])
    out.finish()
    await reply.done
    assert reply.data == REPORT and scene.upstream.bodies == [DELETED]


@pytest.mark.parametrize("behind", [b"0", commands(MAIN) + PACK, PACK])
@on_reactor
async def test_nothing_that_follows_a_deletion_goes_upstream(scene: Scene, behind: bytes) -> None:
    sidecar = await scene.world.session(DELETING)
    out, reply = sidecar.begin_push(Chunked())
    out.write(DELETED)
    await scene.pause()
    assert not scene.upstream.talks
    out.write(behind)
    out.finish()
    await reply.done
    assert reply.status == 400 and b"G203" in reply.data
    assert not scene.upstream.talks


@on_reactor
async def test_the_probe_before_a_large_push_is_answered_200_and_empty(scene: Scene) -> None:
    sidecar = await scene.world.session()
    reply = await sidecar.push(b"0000")
    assert (reply.status, reply.data) == (200, b"")
    assert reply.header(b"content-type") == b"application/x-git-receive-pack-result"
    assert not scene.upstream.talks


@pytest.mark.parametrize(
    "body",
    [
        b"zzzz",
        b"0009PACK\n",
        format_data(b"nonsense") + FLUSH,
        commands("refs/heads/a\x1bb"),
        commands(AGENT, AGENT),
        commands(AGENT, capabilities="quiet quiet"),
        commands(AGENT)[:-4],
    ],
)
@on_reactor
async def test_a_push_that_is_not_understood_goes_nowhere(scene: Scene, body: bytes) -> None:
    sidecar = await scene.world.session()
    reply = await sidecar.push(body)
    assert reply.status == 400 and b"G203" in reply.data
    assert reply.header(b"connection") == b"close"
    assert not scene.upstream.talks
    assert [one["code"] for one in scene.world.audit("git.decision")] == ["G203"]


CERTIFICATE = [
    b"push-cert\0 report-status side-band-64k agent=git/2.39.5",
    b"certificate version 0.1\n",
    b"pusher A U Thor <a@example.org> 1700000000 +0000\n",
    b"pushee http://127.0.0.1:419/localhost/acme/app.git\n",
    b"nonce 1700000000-abc\n",
    b"\n",
    f"{'0' * 40} {'1' * 40} {AGENT}\n".encode(),
    b"-----BEGIN PGP SIGNATURE-----\n",
    b"nothing of it is looked at\n",
    b"push-cert-end\n",
]
NEVER_SERVED = {
    "a name that git refuses": (commands("refs/heads/a..b"), b"ng refs/heads/a..b ", b"G203"),
    "a symbolic ref": (commands("HEAD"), b"ng HEAD push names something", b"G203"),
    "one level": (commands(AGENT, "refs/x"), b"ng refs/x push names", b"G203"),
    "the others": (commands(AGENT, "refs/x"), b"ng refs/heads/agent/a push names", b"G203"),
    "a newer git": (
        commands(AGENT, capabilities="report-status side-band-64k new-thing=1"),
        b"ng refs/heads/agent/a push asks for an unknown capability",
        b"G203",
    ),
    "a certificate": (
        b"".join(map(format_data, CERTIFICATE)) + FLUSH,
        b"ng refs/heads/agent/a signed pushes are not served",
        b"G205",
    ),
    "too many refs": (
        commands(*(f"refs/heads/agent/{each}" for each in range(4001))),
        b"ng refs/heads/agent/4000 push changes too many refs",
        b"G304",
    ),
    "far too many refs": (
        commands(*(f"refs/heads/agent/{'x' * 200}{each}" for each in range(5000))),
        b"\x02gitmoat: the push changes too many refs (G304)\n",
        b"G304",
    ),
}


@pytest.mark.parametrize("case", NEVER_SERVED)
@on_reactor
async def test_what_git_may_send_and_we_never_serve_is_told_per_ref(
    scene: Scene, case: str
) -> None:
    body, told, code = NEVER_SERVED[case]
    sidecar = await scene.world.session()
    reply = await sidecar.push(body + PACK)
    assert reply.status == 200 and told in reply.data and code in reply.data
    assert not scene.upstream.talks
    decisions = scene.world.audit("push.decision") + scene.world.audit("git.decision")
    assert [(one["decision"], one["code"]) for one in decisions] == [("deny", code.decode())]
    assert (await sidecar.push(b"0000")).status == 200


OPTIONS = b"".join(map(format_data, (b"ci.skip", b"topic=x y", "an=Zoë".encode()))) + FLUSH
WITH_OPTIONS = "report-status side-band-64k push-options"


@on_reactor
async def test_push_options_are_refused_so_that_git_shows_it(scene: Scene) -> None:
    sidecar = await scene.world.session()
    reply = await sidecar.push(commands(AGENT, capabilities=WITH_OPTIONS) + OPTIONS + PACK)
    assert reply.status == 200
    assert b"ng refs/heads/agent/a push options are not allowed (G204)" in reply.data
    assert not scene.upstream.talks


@on_reactor
async def test_push_options_that_the_policy_allows_go_up_in_our_own_spelling(
    scene: Scene,
) -> None:
    scene.upstream.answers(DONE)
    sidecar = await scene.world.session(POLICY.replace("push = {", "push = { options = true,"))
    sent = commands(AGENT, capabilities=WITH_OPTIONS) + OPTIONS + PACK
    assert (await sidecar.push(sent)).data == REPORT
    assert scene.upstream.bodies == [sent]


@pytest.mark.parametrize(
    "options",
    [[b"a\x1b[31m"], [b"a\0b"], [b""], [b"x" * 1025], [b"x"] * 65, [b"\xe4"], ["a\x9b".encode()]],
)
@on_reactor
async def test_push_options_of_other_bytes_are_refused_though_the_policy_allows_some(
    scene: Scene, options: list[bytes]
) -> None:
    sidecar = await scene.world.session(POLICY.replace("push = {", "push = { options = true,"))
    section = b"".join(map(format_data, options)) + FLUSH
    reply = await sidecar.push(commands(AGENT, capabilities=WITH_OPTIONS) + section + PACK)
    assert reply.status == 200 and b"push options are too many or not plain" in reply.data
    assert not scene.upstream.talks


@on_reactor
async def test_a_push_to_a_repository_that_is_not_ours_is_404(scene: Scene) -> None:
    sidecar = await scene.world.session()
    reply = await sidecar.push(commands(AGENT) + PACK, repo="acme/other")
    assert reply.status == 404 and b"G101" in reply.data
    assert not scene.upstream.talks


@on_reactor
async def test_a_push_that_announces_too_much_is_refused_at_once(scene: Scene) -> None:
    sidecar = await scene.world.session()
    out, reply = sidecar.begin_push(Length(len(commands(AGENT) + PACK_HEAD) + (2 << 20)))
    out.write(commands(AGENT) + PACK_HEAD)
    await reply.started
    out.write(bytes(2 << 20))
    out.finish()
    await reply.done
    assert reply.status == 200
    assert b"ng refs/heads/agent/a the push is too large (G301)" in reply.data
    assert not scene.upstream.talks


@on_reactor
async def test_a_push_that_grows_too_large_is_cut_upstream_and_told_below(scene: Scene) -> None:
    sidecar = await scene.world.session()
    raw = await scene.world.connect_raw(sidecar.key)
    raw.say(raw_push("Transfer-Encoding: chunked"))
    raw.say(chunk_of(commands(AGENT) + PACK_HEAD))
    for _ in range(30):
        raw.say(b"186a0\r\n" + bytes(100_000) + b"\r\n")
        await scene.pause(0.005)
    assert b"ng refs/heads/agent/a the push is too large (G301)" in raw.heard
    (talk,) = scene.upstream.talks
    assert talk.lost and scene.upstream.bodies == []
    (outcome,) = scene.world.audit("git.outcome")
    assert outcome["code"] == "G301"
    raw.heard = b""
    raw.say(b"0\r\n\r\n" + raw_push("Content-Length: 4") + b"0000")
    await scene.pause()
    assert raw.heard.startswith(b"HTTP/1.1 200 OK\r\n") and not raw.lost


EARLY = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-receive-pack-result\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
PROGRESS = format_data(b"\x02Unpacking\n")


@on_reactor
async def test_a_push_that_grows_too_large_is_told_even_after_the_upstreams_head(
    scene: Scene,
) -> None:
    scene.upstream.on_head = lambda talk: talk.say(EARLY + chunk_of(PROGRESS))
    sidecar = await scene.world.session()
    out, reply = sidecar.begin_push(Chunked())
    out.write(commands(AGENT) + PACK_HEAD)
    await reply.started
    for _ in range(12):
        out.write(bytes(100_000))
        await scene.pause(0.005)
    await reply.done
    assert not reply.error
    assert b"ng refs/heads/agent/a the push is too large (G301)" in reply.data


@on_reactor
async def test_a_push_lost_after_the_upstreams_head_leaves_the_result_open(scene: Scene) -> None:
    def vanish(talk: Talk) -> None:
        talk.say(EARLY + chunk_of(PROGRESS))
        scene.world.reactor.callLater(0.05, talk.abort)

    scene.upstream.on_request = vanish
    reply = await (await scene.world.session()).push(commands(AGENT) + PACK)
    assert not reply.error and reply.data.startswith(PROGRESS)
    assert b"(U101); it may have been applied: fetch and look\n" in reply.data


@on_reactor
async def test_half_a_report_is_not_completed_by_another(scene: Scene) -> None:
    def vanish(talk: Talk) -> None:
        talk.say(EARLY + chunk_of(REPORT[:-4]))
        scene.world.reactor.callLater(0.05, talk.abort)

    scene.upstream.on_request = vanish
    reply = await (await scene.world.session()).push(commands(AGENT) + PACK)
    assert reply.error and reply.data == REPORT[:-4]


@on_reactor
async def test_a_push_of_exactly_the_limit_passes(scene: Scene) -> None:
    scene.upstream.answers(DONE)
    sidecar = await scene.world.session()
    pack = PACK_HEAD + bytes((1 << 20) - len(PACK_HEAD))
    reply = await sidecar.push(commands(AGENT) + pack)
    assert reply.data == REPORT
    assert scene.upstream.bodies == [commands(AGENT) + pack]


@on_reactor
async def test_an_upstream_lost_in_a_push_leaves_the_result_open(scene: Scene) -> None:
    scene.upstream.on_request = lambda talk: talk.abort()
    reply = await (await scene.world.session()).push(commands(AGENT) + PACK)
    assert reply.status == 200
    assert b"(U101); it may have been applied: fetch and look\n" in reply.data
    assert len(scene.upstream.heads) == 1


@on_reactor
async def test_an_upstream_that_refuses_the_credential_is_told_per_ref(scene: Scene) -> None:
    scene.upstream.answers(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
    reply = await (await scene.world.session()).push(commands(AGENT) + PACK)
    assert reply.status == 200 and b"(U102)\n" in reply.data


@on_reactor
async def test_an_early_answer_of_the_upstream_is_passed_on_while_the_pack_is_dropped(
    scene: Scene,
) -> None:
    scene.upstream.on_head = lambda talk: talk.say(DONE)
    sidecar = await scene.world.session()
    out, reply = sidecar.begin_push(Chunked())
    out.write(commands(AGENT) + PACK_HEAD + bytes(1000))
    await reply.done
    assert reply.data == REPORT


@on_reactor
async def test_the_record_of_a_push_is_on_disk_before_the_upstream_hears_of_it(
    scene: Scene,
) -> None:
    seen: list[str] = []

    def look(talk: Talk) -> None:
        seen.extend(one["decision"] for one in scene.world.audit("push.decision"))

    scene.upstream.on_head = look
    scene.upstream.answers(DONE)
    await (await scene.world.session()).push(commands(AGENT) + PACK)
    assert seen == ["allow"]
    (outcome,) = scene.world.audit("git.outcome")
    assert (outcome["op"], outcome["bytes_up"]) == ("push", len(commands(AGENT) + PACK))


@on_reactor
async def test_a_push_over_the_rate_is_told_per_ref(scene: Scene) -> None:
    policy = POLICY.replace("git_requests_per_minute = 50", "git_requests_per_minute = 1")
    sidecar = await scene.world.session(policy)
    for _ in range(5):
        await sidecar.push(b"0000")
    reply = await sidecar.push(commands(AGENT) + PACK)
    assert reply.status == 200 and b"ng refs/heads/agent/a too many git requests" in reply.data
    assert not scene.upstream.talks


@on_reactor
async def test_reports_of_the_upstream_are_cleaned(scene: Scene) -> None:
    evil = format_data(b"\x01" + format_data(b"ng refs/heads/agent/a \x1b[31mno\n") + FLUSH) + FLUSH
    scene.upstream.answers(ok(Service.RECEIVE_PACK, "result", evil))
    reply = await (await scene.world.session()).push(commands(AGENT) + PACK_HEAD)
    assert reply.data == evil.replace(b"\x1b", b"?")


@on_reactor
async def test_a_sidecar_that_leaves_in_a_push_cuts_the_upstream(scene: Scene) -> None:
    sidecar = await scene.world.session()
    out, _ = sidecar.begin_push(Chunked())
    out.write(commands(AGENT) + PACK_HEAD + bytes(1000))
    await scene.pause(0.2)
    sidecar.connection.abort()
    await scene.pause(0.2)
    assert scene.upstream.talks[0].lost and scene.upstream.bodies == []

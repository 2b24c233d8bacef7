from __future__ import annotations

import re
from pathlib import Path

import pytest

from gitmoat.net.http.incoming import Incoming
from gitmoat.wire.http.heads import Chunked, Length
from netpolicy.git_rules.refusal import refusal_lines
from netpolicy.policy import Tier
from sidecar.control.report_queue import BURST
from sidecar.kinds.git import KEPT
from tests.fakes.sidecar_requests import (
    UPLOAD,
    advertise,
    info_refs,
    receive,
    status,
    upload,
)
from tests.fakes.sidecar_scope import POLICY, basic
from tests.fakes.sidecar_world import Client, Collected, GitBackend, World

RESULT = b"application/x-git-receive-pack-result"


def masked(answer: bytes) -> bytes:
    return re.sub(rb"request id: [0-9a-f]{16}", b"request id: X", answer)


def test_nothing_is_accepted_before_activation(world: World) -> None:
    client = world.request(world.untrusted_port, info_refs("hub.example/acme/app"))
    world.loop.settle()
    assert client.received == b""
    world.broker.handler = advertise
    world.start()
    world.loop.turn_until(lambda: client.whole)
    assert status(client.received) == 200


def test_the_port_decides_the_tier(world: World) -> None:
    world.start()
    world.broker.handler = advertise
    app, gate = info_refs("hub.example/acme/app"), info_refs("hub.example/acme/gate")
    assert status(world.answer(world.untrusted_port, app)) == 200
    assert status(world.answer(world.untrusted_port, gate)) == 404
    assert status(world.answer(world.helper_port, app)) == 401
    assert status(world.answer(world.helper_port, gate)) == 401
    authorized = info_refs("hub.example/acme/gate", basic(world.token("hub.example/acme/gate.git")))
    assert status(world.answer(world.helper_port, authorized)) == 200
    tiers = [head.header(b"gitmoat-tier") for head in world.broker.heads]
    assert tiers == [b"untrusted", b"helper"]


def test_a_sandbox_cannot_name_its_own_tier(world: World) -> None:
    world.start()
    world.broker.handler = advertise
    raw = info_refs("hub.example/acme/app", "Gitmoat-Tier: helper", "Gitmoat-Request-Id: x")
    world.answer(world.untrusted_port, raw)
    [head] = world.broker.heads
    assert head.header(b"gitmoat-tier") == b"untrusted"
    assert re.fullmatch(rb"[0-9a-f]{16}", head.header(b"gitmoat-request-id") or b"")


HIDDEN = [
    "hub.example/acme/nothing-of-the-kind",
    "hub.example/acme/web-secrets",
    "elsewhere.example/acme/app",
    "hub.example/acme/%61pp",
    "hub.example/acme/app.git.git",
]


@pytest.mark.parametrize("tier", list(Tier))
def test_unknown_and_forbidden_are_byte_identical_and_never_401(world: World, tier: Tier) -> None:
    world.start()
    port = world.helper_port if tier is Tier.HELPER else world.untrusted_port
    answers = {masked(world.answer(port, info_refs(each))) for each in HIDDEN}
    [answer] = answers
    assert status(answer) == 404
    assert world.broker.heads == []


def test_a_repository_missing_upstream_looks_the_same_too(world: World) -> None:
    """The broker's 404 has the text it makes from the same policy."""

    def missing(incoming: Incoming) -> None:
        request_id = (incoming.head.header(b"gitmoat-request-id") or b"").decode()
        lines = refusal_lines("G101", request_id, POLICY, Tier.UNTRUSTED)
        body = "".join(f"{line}\n" for line in lines).encode()
        headers = ((b"Content-Type", b"text/plain"), (b"Gitmoat-Request-Id", b"x"))
        incoming.reply(404, headers, body)

    world.start()
    world.broker.handler = missing
    theirs = world.answer(world.untrusted_port, info_refs("hub.example/acme/web-gone"))
    ours = world.answer(world.untrusted_port, info_refs("hub.example/acme/unknown"))
    assert masked(theirs) == masked(ours)
    assert len(world.broker.heads) == 1


def test_a_helper_token_is_worth_nothing_for_another_repository(world: World) -> None:
    world.start()
    world.broker.handler = advertise
    header = basic(world.token("hub.example/acme/app"))
    assert (
        status(world.answer(world.helper_port, info_refs("hub.example/acme/gate", header))) == 401
    )
    assert status(world.answer(world.helper_port, info_refs("hub.example/acme/APP", header))) == 200


def test_a_helper_token_opens_nothing_on_the_untrusted_port_and_is_not_forwarded(
    world: World,
) -> None:
    world.start()
    world.broker.handler = advertise
    token = world.token("hub.example/acme/gate")
    refused = world.answer(world.untrusted_port, info_refs("hub.example/acme/gate", basic(token)))
    assert status(refused) == 404
    app = info_refs("hub.example/acme/app", basic(world.token("hub.example/acme/app")))
    assert status(world.answer(world.untrusted_port, app)) == 200
    assert status(world.answer(world.helper_port, app)) == 200
    for head in world.broker.heads:
        assert head.header(b"authorization") is None
    assert len(world.broker.heads) == 2


def test_a_token_ends_by_the_monotonic_clock(world: World) -> None:
    world.start()
    world.broker.handler = advertise
    raw = info_refs("hub.example/acme/app", basic(world.token("hub.example/acme/app")))
    world.loop.pass_time(599, step=10)
    assert status(world.answer(world.helper_port, raw)) == 200
    world.loop.pass_time(2)
    assert status(world.answer(world.helper_port, raw)) == 401


def test_only_known_answers_of_the_broker_are_shown(world: World) -> None:
    def strange(incoming: Incoming) -> None:
        headers = ((b"Content-Type", b"text/html"), (b"Set-Cookie", b"a=b"))
        incoming.reply(200, headers, b"<h1>secret</h1>")

    world.start()
    world.broker.handler = strange
    answer = world.answer(world.untrusted_port, info_refs("hub.example/acme/app"))
    assert status(answer) == 502
    assert b"U104" in answer
    assert b"secret" not in answer
    assert b"Cookie" not in answer


def test_several_requests_share_one_connection_on_both_sides(world: World) -> None:
    world.start()
    world.broker.handler = advertise
    client = world.request(world.untrusted_port, info_refs("hub.example/acme/app"))
    for count in range(1, 6):
        world.loop.turn_until(lambda n=count: client.received.count(b"refs\n") == n)  # type: ignore[misc]
        client.send(info_refs("hub.example/acme/app"))
    world.loop.turn_until(lambda: client.received.count(b"refs\n") == 6)
    client.close()
    assert len(world.broker.connections) <= 3


def test_a_lost_broker_in_mid_transfer_is_a_cut_not_an_end(world: World) -> None:
    def part(incoming: Incoming) -> None:
        out = incoming.begin(200, ((b"Content-Type", UPLOAD),), Chunked())
        out.write(b"PACK" * 1000)

    world.start()
    world.broker.handler = part
    client = world.request(world.untrusted_port, upload("hub.example/acme/app", b"0000"))
    world.loop.turn_until(lambda: client.received.count(b"PACK") == 1000)
    world.broker.kill()
    world.loop.turn_until(lambda: client.over)
    assert b"\r\n0\r\n\r\n" not in client.received
    assert client.reset


def answer_in_time(world: World, raw: bytes) -> bytes:
    """The clock runs: who tries again does so after a breath."""
    client = world.request(world.untrusted_port, raw)
    for _ in range(60):
        world.loop.settle()
        if client.whole:
            break
        world.loop.pass_time(0.25)
    client.close()
    return client.received


def test_a_dead_link_costs_a_get_nothing(world: World) -> None:
    """The broker restarted: the first link is found dead only when the request is sent."""
    world.start()
    died: list[Incoming] = []

    def first_dies(incoming: Incoming) -> None:
        if not died:
            died.append(incoming)
            incoming.abort()
        else:
            advertise(incoming)

    world.broker.handler = first_dies
    answer = answer_in_time(world, info_refs("hub.example/acme/app"))
    assert status(answer) == 200
    assert len(world.broker.heads) == 2


def test_a_broker_that_dies_with_all_its_links_costs_a_get_nothing(world: World) -> None:
    """The end of the second link is not heard yet when the first one's is."""
    world.start()
    died: list[Incoming] = []

    def all_die(incoming: Incoming) -> None:
        if not died:
            died.append(incoming)
            world.broker.kill()
        else:
            advertise(incoming)

    world.broker.handler = all_die
    answer = answer_in_time(world, info_refs("hub.example/acme/app"))
    assert status(answer) == 200


def test_a_fetch_is_tried_twice_at_most_and_a_push_once(world: World) -> None:
    world.start()
    world.broker.handler = Incoming.abort
    app = "hub.example/acme/app"
    for raw, tries in (
        (info_refs(app), 2),
        (upload(app, b"0000"), 2),
        (upload(app, b"0" * (KEPT + 1)), 1),
        (receive(app, b"0000"), 1),
    ):
        world.broker.heads.clear()
        answer = answer_in_time(world, raw)
        assert status(answer) == 502
        assert b"B101" in answer
        assert len(world.broker.heads) == tries
        world.loop.pass_time(30)


@pytest.mark.parametrize("size", [0, 4, KEPT])
def test_what_a_closing_broker_did_not_take_is_sent_again_whole(world: World, size: int) -> None:
    """Also a push: it was not begun. The client still sends when the link ends."""
    bodies: list[bytes] = []

    def collected(incoming: Incoming, body: bytes) -> None:
        bodies.append(body)
        incoming.reply(200, ((b"Content-Type", RESULT),), b"0000")

    def collect(incoming: Incoming) -> None:
        Collected(incoming, collected)

    world.start()
    world.broker.handler = collect
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    client = close_under(world, receive("hub.example/acme/app", body + b"later")[:-5])
    client.send(b"later")
    world.loop.pass_time(1)
    client.close()
    assert status(client.received) == 200
    assert bodies == [body + b"later"]


def test_a_client_that_goes_meanwhile_is_not_asked_for_again(world: World) -> None:
    world.start()
    world.broker.handler = Incoming.abort
    client = world.request(world.untrusted_port, info_refs("hub.example/acme/app"))
    world.loop.turn_until(lambda: len(world.broker.heads) == 1)
    world.loop.settle()
    client.vanish()
    world.loop.settle()
    world.loop.pass_time(5)
    assert len(world.broker.heads) == 1


def test_of_a_push_that_is_too_long_to_keep_nothing_is_sent_twice(world: World) -> None:
    world.start()
    client = close_under(world, receive("hub.example/acme/app", b"x" * (KEPT + 1)))
    world.loop.turn_until(lambda: client.whole)
    client.close()
    assert status(client.received) == 502
    assert world.broker.heads == []


def close_under(world: World, raw: bytes) -> Client:
    """A request on links that the broker, which has not read it, closes in order."""
    links = list(world.broker.connections)
    for link in links:
        link.hold("test")
    client = world.request(world.untrusted_port, raw)
    world.loop.settle()
    for link in links:
        link.close()
    world.loop.settle()
    return client


def test_an_unreachable_broker_is_a_502_with_text_within_ten_seconds(world: World) -> None:
    hostd = world.start()
    hostd.reachable = False
    world.broker.kill()
    world.loop.settle()
    client = world.request(world.untrusted_port, info_refs("hub.example/acme/app"))
    world.loop.pass_time(7)
    assert client.received == b""
    world.loop.pass_time(2)
    world.loop.turn_until(lambda: client.whole)
    assert status(client.received) == 502
    assert b"B101" in client.received
    assert b"text/plain" in client.received
    client.close()


def test_service_resumes_when_the_broker_does(world: World) -> None:
    hostd = world.start()
    world.broker.handler = advertise
    hostd.reachable = False
    world.broker.kill()
    world.loop.pass_time(60)
    before = hostd.dials
    world.loop.pass_time(60)
    assert hostd.dials - before <= 10
    hostd.reachable = True
    client = world.request(world.untrusted_port, info_refs("hub.example/acme/app"))
    world.loop.pass_time(2)
    world.loop.turn_until(lambda: client.whole)
    assert status(client.received) == 200
    client.close()


def test_a_client_that_leaves_while_it_waits_leaves_nothing_behind(world: World) -> None:
    hostd = world.start()
    hostd.reachable = False
    world.broker.kill()
    world.loop.settle()
    client = world.request(world.untrusted_port, info_refs("hub.example/acme/app"))
    world.loop.settle()
    client.vanish()
    world.loop.settle()
    hostd.reachable = True
    world.loop.pass_time(30)
    assert world.broker.heads == []


def test_a_malformed_request_gets_one_400_and_the_end(world: World) -> None:
    world.start()
    raw = info_refs("hub.example/acme/app", "Transfer-Encoding: identity")
    client = world.request(world.untrusted_port, raw + info_refs("hub.example/acme/app"))
    world.loop.turn_until(lambda: client.over)
    assert client.received.count(b"HTTP/1.1 ") == 1
    assert status(client.received) == 400
    assert world.broker.heads == []


def test_lfs_is_refused_as_json(world: World) -> None:
    world.start()
    raw = (
        b"POST /hub.example/acme/app.git/info/lfs/objects/batch HTTP/1.1\r\nHost: x\r\n"
        b"Content-Length: 2\r\n\r\n{}"
    )
    answer = world.answer(world.untrusted_port, raw)
    assert status(answer) == 501
    assert b'{"message": ' in answer


def test_a_slow_reader_holds_the_broker_back(world: World) -> None:
    """Memory stays flat: the rest of the body waits in the broker."""
    written = 0
    wanted = 64 << 20

    def endless(incoming: Incoming) -> None:
        out = incoming.begin(200, ((b"Content-Type", UPLOAD),), Length(wanted))
        paused = False

        def pause() -> None:
            nonlocal paused
            paused = True

        def resume() -> None:
            nonlocal paused, written
            paused = False
            while not paused and written < wanted:
                written += 65536
                out.write(bytes(65536))

        out.bind_source(pause, resume)
        resume()

    world.start()
    world.broker.handler = endless
    client = world.request(world.untrusted_port, upload("hub.example/acme/app", b"0000"))
    world.loop.removeReader(client)
    world.loop.settle()
    assert written < wanted // 2
    assert world.loop.peak < 8 << 20
    client.close()
    world.loop.settle()


@pytest.mark.parametrize("version", ["0", "2"])
def test_git_clones_and_pushes_through_the_untrusted_port(
    world: World, repositories: Path, version: str
) -> None:
    world.start()
    world.broker.handler = GitBackend(repositories)
    url = f"http://127.0.0.1:{world.untrusted_port}/hub.example/acme/app.git"
    protocol = ["-c", f"protocol.version={version}"]
    cloned = world.git(*protocol, "clone", "-q", url, "clone")
    assert cloned.returncode == 0, cloned.stderr
    world.git("-C", "clone", "commit", "-q", "--allow-empty", "-m", "two")
    pushed = world.git(*protocol, "-C", "clone", "push", "-q", "origin", "HEAD:refs/heads/agent/x")
    assert pushed.returncode == 0, pushed.stderr
    refs = world.git("ls-remote", url)
    assert "refs/heads/agent/x" in refs.stdout


def test_git_uses_the_helper_port_with_a_token_it_was_given(
    world: World, repositories: Path
) -> None:
    world.start()
    world.broker.handler = GitBackend(repositories)
    url = f"http://127.0.0.1:{world.helper_port}/hub.example/acme/app.git"
    assert world.git("ls-remote", url).returncode != 0
    token = world.token("hub.example/acme/app.git")
    helper = f"credential.helper=!printf 'username=gitmoat\\npassword={token}\\n'; :"
    listed = world.git("-c", helper, "ls-remote", url)
    assert listed.returncode == 0, listed.stderr
    assert "refs/heads/main" in listed.stdout


def test_git_shows_the_reason_of_a_404(world: World) -> None:
    world.start()
    url = f"http://127.0.0.1:{world.untrusted_port}/hub.example/acme/other.git"
    listed = world.git("ls-remote", url)
    assert listed.returncode == 128
    assert "remote: gitmoat: this repository is not available here (G101)" in listed.stderr
    assert "remote: allowed: hub:acme/app" in listed.stderr


def test_git_shows_that_a_session_has_ended_on_both_ports(world: World) -> None:
    def ended(incoming: Incoming) -> None:
        body = b"gitmoat: this session has ended (S101)\n"
        incoming.reply(401, ((b"Content-Type", b"text/plain"),), body)

    world.start()
    world.broker.handler = ended
    url = f"http://127.0.0.1:{world.untrusted_port}/hub.example/acme/app.git"
    assert "remote: gitmoat: this session has ended (S101)" in world.git("ls-remote", url).stderr
    token = world.token("hub.example/acme/app.git")
    helper = f"credential.helper=!printf 'username=gitmoat\\npassword={token}\\n'; :"
    url = f"http://127.0.0.1:{world.helper_port}/hub.example/acme/app.git"
    shown = world.git("-c", helper, "ls-remote", url).stderr
    assert "remote: gitmoat: this session has ended (S101)" in shown


def test_git_shows_why_a_fetch_is_refused(world: World) -> None:
    world.start()
    url = f"http://127.0.0.1:{world.untrusted_port}/hub.example/acme/drop.git"
    shown = world.git("ls-remote", url).stderr
    assert "fetching from this repository is not allowed (G105)" in shown


def test_pushes_that_cannot_be_read_cost_others_no_time(world: World) -> None:
    """Each takes a link with it. The clock stands still: a back-off would never end."""
    world.start()
    chunked = receive("hub.example/acme/app", b"").replace(
        b"Content-Length: 0", b"Transfer-Encoding: chunked"
    )
    for _ in range(3 * BURST):
        assert status(world.answer(world.untrusted_port, chunked + b"zz\r\n")) == 400
    world.broker.handler = advertise
    answer = world.answer(world.untrusted_port, info_refs("hub.example/acme/app"))
    assert status(answer) == 200

"""A kind of request that the product does not have, served by its exchange as it is."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import frozen

from gitmoat.messages.report import Event, Report
from gitmoat.messages.sidecar import Allowed, format_allowed
from gitmoat.net.causes import Cause
from gitmoat.net.http.incoming import Incoming
from gitmoat.wire.http.heads import RequestHead, ResponseHead, format_request
from netpolicy.format.document import parse_policy
from netpolicy.policy import Policy, Tier
from netpolicy.upstreams import UpstreamTable
from sidecar.kind import (
    Allow,
    Answered,
    Challenge,
    Deny,
    Kind,
    Reply,
    Scope,
    Source,
    Stream,
    Told,
)
from sidecar.kinds import KINDS
from sidecar.link.connection_pool import Share
from tests.fakes.sidecar_requests import advertise, info_refs, status
from tests.fakes.sidecar_scope import POLICY_TEXT
from tests.fakes.sidecar_world import Client, Hostd, World
from tests.fakes.whole_sidecar import whole_world

PING = b"GET /ping/%b HTTP/1.1\r\nHost: x\r\n\r\n"
POLICY = parse_policy(POLICY_TEXT + '[[egress]]\nid = "friend"\nhosts = ["friend.example"]\n')
NOBODY = parse_policy(POLICY_TEXT)


@frozen
class Ping:
    name: str


def _classify(head: RequestHead, source: Source) -> Ping | Deny | None:
    if not head.target.startswith(b"/ping/"):
        return None
    name = head.target.removeprefix(b"/ping/").decode("ascii")
    return Ping(name) if name else Deny("E103", 400)


def _decide(ping: Ping, source: Source, scope: Scope) -> Allow[Ping] | Deny:
    named = {pattern.text for rule in scope.policy.egress for pattern in rule.hosts}
    return Allow(ping) if ping.name in named else Deny("E101", 403, subject=ping.name)


def _head(ping: Ping, source: Source, request_id: str, asked: RequestHead | None) -> bytes:
    target = f"/ping/{ping.name}".encode()
    return format_request(b"GET", target, [(b"Host", b"gitmoat"), (b"X", request_id.encode())])


def _answer(ping: Ping, source: Source, head: ResponseHead) -> Answered | Deny:
    return Answered(head.status, ()) if head.status == 200 else Deny("U104", 502, ours=False)


def _refuse(refused: Deny | Challenge, told: Told) -> Reply:
    assert isinstance(refused, Deny)
    return Reply(refused.status, (), f"no pong ({refused.code})\n".encode(), refused.close)


def _report(refused: Deny | Challenge, source: Source, request_id: str | None) -> Report:
    assert isinstance(refused, Deny)
    event, code = Event.GIT_REFUSED, refused.code
    return Report(event=event, uid=source.uid, code=code, req=request_id, repo=refused.subject)


KIND = Kind[Ping, Ping](
    name="ping",
    listeners=frozenset({"untrusted_git", "proxy"}),
    tiers=frozenset({Tier.UNTRUSTED}),
    body=Stream(),
    share=lambda tier: Share.UNTRUSTED,
    classify=_classify,
    decide=_decide,
    opens=lambda ping: True,
    head=_head,
    answer=_answer,
    tries=lambda ping, cause: 3 if cause is Cause.NOT_TAKEN else 1,
    refuse=_refuse,
    report=_report,
    subject=lambda ping: ping.name,
    too_often=Deny("E108", 429),
    unreachable=Deny("B101", 502, ours=False),
    malformed=Deny("E111", 400),
    queues=True,
    lasts=True,
)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with whole_world(tmp_path, kinds=(KIND, *KINDS), policy=POLICY) as made:
        yield made


def pong(incoming: Incoming) -> None:
    incoming.reply(200, (), b"pong")


def reports(world: World) -> list[dict[str, object]]:
    world.loop.pass_time(3)
    return [json.loads(raw) for raw in world.broker.reports]


def waiting(world: World, port: int) -> tuple[Client, Incoming]:
    """A ping that the broker has, and says nothing to; at both ends."""
    taken: list[Incoming] = []
    world.broker.handler = taken.append
    client = world.request(port, PING % b"friend.example")
    world.loop.turn_until(lambda: bool(taken))
    return client, taken[0]


def gone(client: Client) -> bool:
    return client.over


def replace_policy(world: World, hostd: Hostd, policy: Policy) -> None:
    file = os.memfd_create("policy")
    os.write(file, format_allowed(Allowed(policy=policy, upstreams=UpstreamTable(()))))
    os.lseek(file, 0, os.SEEK_SET)
    hostd.send("policy", file)
    os.close(file)
    world.loop.settle()


@pytest.mark.parametrize("port", ["untrusted_port", "proxy_port"])
def test_it_is_served_at_every_port_of_its_own(world: World, port: str) -> None:
    world.start()
    world.broker.handler = pong
    answer = world.answer(getattr(world, port), PING % b"friend.example")
    assert status(answer) == 200 and answer.endswith(b"pong")
    assert [head.target for head in world.broker.heads] == [b"/ping/friend.example"]


def test_it_is_not_served_anywhere_else(world: World) -> None:
    world.start()
    assert b"(G103)" in world.answer(world.helper_port, PING % b"friend.example")
    assert world.broker.heads == []


def test_what_the_policy_refuses_is_told_and_reported_and_goes_nowhere(world: World) -> None:
    world.start()
    answer = world.answer(world.untrusted_port, PING % b"stranger.example")
    assert status(answer) == 403 and answer.endswith(b"no pong (E101)\n")
    (report,) = reports(world)
    assert report.pop("req")
    assert report == {
        "event": "git-refused", "uid": 61003, "code": "E101", "repo": "stranger.example",
    }  # fmt: skip
    assert world.broker.heads == []


def test_another_policy_cuts_it_at_both_ends(world: World) -> None:
    hostd = world.start()
    client, taken = waiting(world, world.untrusted_port)
    replace_policy(world, hostd, POLICY)
    assert (gone(client), taken.alive) == (False, True)
    replace_policy(world, hostd, NOBODY)
    assert (gone(client), taken.alive) == (True, False)
    assert not client.received


def test_another_policy_cuts_it_while_it_waits_for_a_link(world: World) -> None:
    hostd = world.start()
    hostd.silent = True
    world.broker.kill()
    world.loop.settle()
    client = world.request(world.untrusted_port, PING % b"friend.example")
    world.loop.settle()
    replace_policy(world, hostd, NOBODY)
    assert gone(client) and not client.received
    hostd.silent = False
    for _ in range(hostd.dials):
        hostd.answer_dial()
    world.loop.pass_time(6)
    assert world.broker.heads == []


def test_a_drain_waits_for_it_where_it_waits_for_git_and_then_cuts_it(world: World) -> None:
    hostd = world.start()
    at_git, _ = waiting(world, world.untrusted_port)
    at_proxy, _ = waiting(world, world.proxy_port)
    hostd.send("stop")
    world.loop.settle()
    assert (gone(at_proxy), gone(at_git)) == (True, False)
    world.loop.pass_time(31, step=1)
    assert gone(at_git) and world.has_stopped()


def test_a_client_that_leaves_ends_it(world: World) -> None:
    world.start()
    client, taken = waiting(world, world.untrusted_port)
    client.close()
    world.loop.settle()
    assert not taken.alive


def test_the_kinds_of_the_product_are_served_beside_it(world: World) -> None:
    world.start()
    world.broker.handler = advertise
    assert status(world.answer(world.untrusted_port, info_refs("hub.example/acme/app"))) == 200

"""Another policy for a session that runs: signed by its host, used once, never by anybody else."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from nacl.signing import SigningKey

from gitmoat.identity.grant import Grant, sign_grant
from netpolicy.format.document import parse_policy, policy_to_mapping
from tests.fakes.broker_scene import SECOND, Scene, another_grant, post_policy
from tests.fakes.broker_traffic import ADVERTISEMENT
from tests.fakes.broker_world import POLICY, World
from tests.fakes.reactor_tests import on_reactor

FIRST = 'version = 1\nname = "first"\n[[egress]]\nhosts = ["web.example"]'


async def begin(world: World) -> Grant:
    """A session, and the grant that would give it another policy."""
    await world.session(FIRST)
    return another_grant(world)


def policy_name(world: World) -> str:
    return world.sessions.living()[0].policy.name


@on_reactor
async def test_the_session_has_it_from_then_on_and_after_a_restart(scene: Scene) -> None:
    world = scene.world
    deadline = (await begin(world), world.sessions.living()[0].stored.deadline)
    reply = await post_policy(world, deadline[0])
    assert (reply.status, reply.json()) == (200, {"cut": 0})
    session = world.sessions.living()[0]
    assert session.policy == parse_policy(SECOND)
    assert session.stored.deadline == deadline[1], "its times stay"
    assert [each["name"] for each in world.audit("policy.replaced")] == ["second"]
    (kept,) = [each for each in world.opened.store.load().sessions if each.id == session.id]
    assert '"second"' in kept.scope


@on_reactor
async def test_the_same_bytes_are_decided_by_the_policy_of_the_moment(scene: Scene) -> None:
    """Whatever is remembered of a request that comes again, its decision is not."""
    world = scene.world
    scene.upstream.answers(ADVERTISEMENT)
    sidecar = await world.session(POLICY)
    closed = POLICY.replace('"up:acme/app"', '"up:acme/other"')
    trusted = POLICY.replace('who = ["helper", "untrusted"]', 'who = ["helper"]')
    steps = [(POLICY, 200), (closed, 404), (POLICY, 200), (trusted, 404), (POLICY, 200)]
    for number, (policy, status) in enumerate(steps):
        scope = policy_to_mapping(parse_policy(policy))
        grant = evolve(another_grant(world), scope=scope, counter=1000 + number)
        assert (await post_policy(world, grant)).status == 200
        assert [(await sidecar.refs()).status for _ in range(3)] == [status] * 3
    world.now += 9 * 3600
    assert (await sidecar.refs()).status == 401


@on_reactor
async def test_a_grant_is_used_once(scene: Scene) -> None:
    grant = await begin(scene.world)
    assert (await post_policy(scene.world, grant)).status == 200
    again = await post_policy(
        scene.world, evolve(grant, scope=policy_to_mapping(parse_policy(FIRST)))
    )
    assert (again.status, again.json()["code"]) == (409, "S104")
    assert policy_name(scene.world) == "second"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"session": "session-99"}, "S103"),
        ({"key": bytes(32)}, "S103"),
        ({"sandbox": "another"}, "S103"),
        ({"host": "two"}, "S103"),
        ({"audience": "another broker"}, "S103"),
        ({"scope": {"version": 1}}, "S103"),
    ],
)
@on_reactor
async def test_what_is_not_about_this_session_changes_nothing(
    scene: Scene, changes: dict[str, Any], code: str
) -> None:
    grant = await begin(scene.world)
    reply = await post_policy(scene.world, evolve(grant, **changes))
    assert reply.json()["code"] == code
    assert policy_name(scene.world) == "first"


@on_reactor
async def test_only_the_hosts_own_signature_counts(scene: Scene) -> None:
    grant = await begin(scene.world)
    reply = await post_policy(scene.world, grant, SigningKey.generate())
    assert reply.json()["code"] == "S103"
    assert policy_name(scene.world) == "first"


@on_reactor
async def test_a_session_that_has_ended_stays_ended(scene: Scene) -> None:
    grant = await begin(scene.world)
    session = scene.world.sessions.living()[0]
    scene.world.broker.context.grants.revoke([session], "test")
    reply = await post_policy(scene.world, grant)
    assert reply.json()["code"] == "S101"
    assert session.policy.name == "first"


@on_reactor
async def test_a_session_cannot_ask_for_it_itself(scene: Scene) -> None:
    grant = await begin(scene.world)
    sidecar = await scene.world.session(FIRST)
    reply = await sidecar.ask("POST", "/host/policy", (), sign_grant(grant, scene.world.host_key))
    assert reply.status == 404

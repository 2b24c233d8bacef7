"""Tokens of a GitHub App, from an API on loopback over TLS, for git on the same server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from twisted.internet.defer import DeferredList, ensureDeferred

from broker.credentials.providers.github_app import DENIED_PER_MINUTE
from tests.fakes.broker_scene import BROKER, Scene, use_app
from tests.fakes.broker_world import PACK_HEAD, POLICY, commands
from tests.fakes.github_api import GitHub, app_pem
from tests.fakes.reactor_tests import on_reactor

WORKFLOWS = POLICY.replace("create = true", "workflows = true, create = true")


@pytest.fixture
def github(scene: Scene) -> Iterator[GitHub]:
    made = GitHub(scene.upstream)
    use_app(scene)
    yield made


def permissions(github: GitHub) -> list[str]:
    return [one["permissions"]["contents"] for one in github.minted]


@on_reactor
async def test_a_token_is_minted_for_the_repository_and_for_reading_or_writing(
    scene: Scene, github: GitHub
) -> None:
    sidecar = await scene.world.session()
    assert (await sidecar.refs()).status == 200
    assert (await sidecar.refs(service="git-receive-pack")).status == 200
    pushed = await sidecar.push(commands("refs/heads/agent/a") + PACK_HEAD)
    assert pushed.status == 200 and b"unpack ok" in pushed.data
    assert permissions(github) == ["read", "write"]
    assert all(one["repositories"] == ["app"] for one in github.minted)
    assert all("workflows" not in one["permissions"] for one in github.minted)
    assert github.used == ["ghs_marker0", "ghs_marker1", "ghs_marker1"]


@on_reactor
async def test_workflow_files_need_a_policy_and_only_the_push_itself_gets_them(
    scene: Scene, github: GitHub
) -> None:
    sidecar = await scene.world.session(WORKFLOWS)
    assert (await sidecar.refs(service="git-receive-pack")).status == 200
    await sidecar.push(commands("refs/heads/agent/a") + PACK_HEAD)
    assert ["workflows" in one["permissions"] for one in github.minted] == [False, True]


@on_reactor
async def test_one_token_serves_many_until_shortly_before_its_end(
    scene: Scene, github: GitHub
) -> None:
    sidecars = [await scene.world.session() for _ in range(4)]
    asked = DeferredList([ensureDeferred(one.refs()) for one in sidecars])
    assert [reply.status for _, reply in await asked] == [200] * 4
    assert github.mints == 1
    scene.world.now += 3600 - 310
    sidecar = await scene.world.session()  # the others have ended by silence
    assert (await sidecar.refs()).status == 200
    assert github.mints == 1
    scene.world.now += 20
    assert (await sidecar.refs()).status == 200
    assert github.mints == 2


@on_reactor
async def test_a_token_that_git_refuses_is_minted_once_more(scene: Scene, github: GitHub) -> None:
    sidecar = await scene.world.session()
    await sidecar.refs()
    github.forget_tokens()
    assert (await sidecar.refs()).status == 200
    assert github.used == ["ghs_marker0", "ghs_marker0", "ghs_marker1"]


@on_reactor
async def test_a_server_that_refuses_every_token_is_asked_twice_and_no_more(
    scene: Scene, github: GitHub
) -> None:
    sidecar = await scene.world.session()
    github.forgetful = True
    reply = await sidecar.refs()
    assert reply.status == 502 and b"U102" in reply.data
    assert github.mints == 2


@pytest.mark.parametrize("skew", [-4000.0, 4000.0])
@on_reactor
async def test_a_clock_that_is_not_githubs_is_corrected(
    scene: Scene, github: GitHub, skew: float
) -> None:
    github.skew = skew
    sidecar = await scene.world.session()
    assert (await sidecar.refs()).status == 200
    assert github.mints == 2
    scene.world.now += 3300
    again = await scene.world.session()
    assert (await again.refs()).status == 200
    assert github.mints == 3  # the correction is remembered


@on_reactor
async def test_a_rate_limit_is_respected_and_told(scene: Scene, github: GitHub) -> None:
    github.refusal = b"HTTP/1.1 403 X\r\nRetry-After: 30\r\nContent-Length: 0\r\n\r\n"
    sidecar = await scene.world.session()
    for _ in range(3):
        reply = await sidecar.refs()
        assert reply.status == 502 and b"U105" in reply.data
        assert b"rate limit" not in reply.data
    assert github.mints == 1
    reasons = {one["reason"] for one in scene.world.audit("git.outcome")}
    assert any("GitHub's rate limit" in one for one in reasons)
    github.refusal = None
    scene.world.now += 31
    assert (await sidecar.refs()).status == 200


@pytest.mark.parametrize(
    ("status", "why"), [(401, "App's key"), (404, "installation"), (422, "permission")]
)
@on_reactor
async def test_the_admin_learns_what_the_sandbox_does_not(
    scene: Scene, github: GitHub, status: int, why: str
) -> None:
    github.refusal = b"HTTP/1.1 %d X\r\nContent-Length: 6\r\n\r\nmarker" % status
    sidecar = await scene.world.session()
    reply = await sidecar.refs()
    assert reply.status == 502 and b"(U105)" in reply.data and why.encode() not in reply.data
    (outcome,) = scene.world.audit("git.outcome")
    assert why in outcome["reason"] and "marker" not in outcome["reason"]


@on_reactor
async def test_a_silent_api_does_not_hold_a_request_for_ever(hasty: Scene) -> None:
    github = GitHub(hasty.upstream, silent=True)
    use_app(hasty)
    sidecar = await hasty.world.session()
    reply = await sidecar.refs()
    assert reply.status == 502 and b"U105" in reply.data
    assert github.mints == 1


@on_reactor
async def test_a_key_that_is_no_key_is_a_reason(scene: Scene, github: GitHub) -> None:
    scene.world.write("app.pem", "-----BEGIN RSA PRIVATE KEY-----\n", 0o400, owner=BROKER)
    sidecar = await scene.world.session()
    assert b"U105" in (await sidecar.refs()).data
    (outcome,) = scene.world.audit("git.outcome")
    assert "not an RSA private key" in outcome["reason"]
    assert github.mints == 0


@on_reactor
async def test_a_new_key_in_the_file_is_used_without_a_reload(scene: Scene, github: GitHub) -> None:
    sidecar = await scene.world.session()
    path = scene.world.paths.etc / "app.pem"
    path.unlink()
    assert b"U105" in (await sidecar.refs()).data
    scene.world.write("app.pem", app_pem(), 0o400, owner=BROKER)
    assert (await sidecar.refs()).status == 200
    assert github.mints == 1


@on_reactor
async def test_a_session_that_asks_for_what_github_denies_does_not_use_up_the_apps_rate(
    scene: Scene, github: GitHub
) -> None:
    many = POLICY.replace('"up:acme/app"', '"up:acme/*"')
    hostile, other = await scene.world.session(many), await scene.world.session(many)
    github.refusal = b"HTTP/1.1 422 X\r\nContent-Length: 0\r\n\r\n"
    for number in range(DENIED_PER_MINUTE + 10):
        assert b"U105" in (await hostile.refs(f"acme/none{number}")).data
    assert github.mints == DENIED_PER_MINUTE
    github.refusal = None
    assert (await other.refs()).status == 200

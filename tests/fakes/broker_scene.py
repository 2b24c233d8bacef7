"""A broker with one fake upstream behind it, and what its tests ask of it as host and as owner."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from attrs import define
from nacl.signing import SigningKey
from twisted.internet.defer import Deferred, ensureDeferred

from gitmoat.identity.grant import Grant, sign_grant
from netpolicy.format.document import parse_policy, policy_to_mapping
from tests.fakes.broker_world import (
    TIMEOUTS,
    Reply,
    World,
)
from tests.fakes.fake_upstream import FakeUpstream
from tests.fakes.github_api import APP, INSTALLATION, app_pem
from tests.waiting import PATIENCE

SECOND = 'version = 1\nname = "second"\n[[egress]]\nhosts = ["other.example"]'
BROKER = 1999999999
_TURNS = 50


@define(eq=False)
class Scene:
    world: World
    upstream: FakeUpstream

    async def pause(self, seconds: float = 0.05) -> None:
        """So long, and then as many turns of the reactor as anything here takes to arrive: on a
        busy machine all of the time may pass within one of them."""
        await self._later(seconds)
        for _ in range(_TURNS):
            await self._later(0)

    async def until(self, holds: Callable[[], object]) -> None:
        """Waits for what must become true; generous, since a busy machine is no failure."""
        deadline = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < deadline, "this did not become true"
            await self._later(0.02)

    async def _later(self, seconds: float) -> None:
        waited: Deferred[None] = Deferred()
        self.world.reactor.callLater(seconds, waited.callback, None)
        await waited


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    yield from opened(tmp_path, TIMEOUTS)


def opened(folder: Path, timeouts: str) -> Iterator[Scene]:
    from twisted.internet import reactor

    upstream = FakeUpstream(reactor)
    world = World(reactor, folder, upstream.port, timeouts)
    world.start()
    made = Scene(world, upstream)
    yield made

    async def end() -> None:
        await world.stop()
        await upstream.close()
        await made.pause(0.01)

    pytest_twisted.blockon(ensureDeferred(end()))


def ask(scene: Scene, op: str, **fields: Any) -> dict[str, Any]:
    line = json.dumps({"op": op, **fields}).encode()
    answer: Any = scene.world.broker.admin().answer(line, 0).result
    assert isinstance(answer, dict), answer
    return answer


def use_app(scene: Scene, **more: str) -> None:
    world = scene.world
    path = world.write("app.pem", app_pem(), 0o400, owner=BROKER)
    values = {
        "app_id": str(APP),
        "installation_id": str(INSTALLATION),
        "private_key_file": f'"{path}"',
    }
    lines = "\n".join(f"{key} = {value}" for key, value in (values | more).items())
    world.write_config(f'[provider.app]\ntype = "github-app"\n{lines}\n')
    main = world.paths.broker_toml
    text = main.read_text().replace('provider = "token"', 'provider = "app"')
    world.write("broker.toml", text, 0o640)
    assert ask(scene, "reload")["ok"]


def another_grant(world: World) -> Grant:
    stored = world.sessions.living()[0].stored
    return Grant(
        host="one",
        boot_id=stored.host_boot,
        counter=1000,
        session=stored.id,
        key=stored.key,
        sandbox=stored.sandbox,
        name=stored.name,
        runtime=stored.runtime,
        container=None,
        netns=stored.netns,
        epoch=stored.epoch,
        scope=policy_to_mapping(parse_policy(SECOND)),
        ttl=60,
        issued=0,
        audience=world.audience,
    )


async def post_policy(world: World, grant: Grant, key: SigningKey | None = None) -> Reply:
    host = await world.host()
    return await host.ask("POST", "/host/policy", (), sign_grant(grant, key or world.host_key))

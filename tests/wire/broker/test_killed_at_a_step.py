"""The broker, killed at each step of what it must not forget, and started again."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import pytest_twisted
from nacl.signing import SigningKey
from twisted.internet.defer import ensureDeferred

from gitmoat.audit.chain import verify_journal
from gitmoat.identity.keyfile import load_key, load_or_create_key, public_text
from gitmoat.wire.git.pktline import FLUSH, format_data
from gitmoat.wire.git.smarthttp import Service
from tests.fakes.broker_process import ProcessWorld
from tests.fakes.broker_world import Sidecar
from tests.fakes.fake_upstream import FakeUpstream, ok
from tests.fakes.reactor_tests import on_reactor
from tests.waiting import PATIENCE

REFS = ok(Service.UPLOAD_PACK, "advertisement", format_data(b"version 2\n") + FLUSH)
SQLITE = "broker.sessions.store.sqlite"
VAULT = "broker.credentials.vault"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ProcessWorld]:
    from twisted.internet import reactor

    upstream = FakeUpstream(reactor)
    upstream.answers(REFS)
    made = ProcessWorld(reactor, tmp_path, upstream.port)
    yield made
    made.hang_up()
    if made.process.poll() is None:
        made.kill()
    pytest_twisted.blockon(ensureDeferred(upstream.close()))


def dies_at(world: ProcessWorld, module: str, call: str, when: str) -> None:
    """Starts a broker that will not get past this call."""
    world.step = (module, call, when)
    world.start()


def again(world: ProcessWorld) -> None:
    """It is dead; the next one is whole."""
    assert world.process.wait(PATIENCE) == -9
    world.step = None
    world.start()
    verify_journal(world.paths.broker_audit)


def ask_and_lose(world: ProcessWorld, op: str, **fields: object) -> None:
    """No answer comes: it died over the question."""
    with pytest.raises((ValueError, OSError)):
        world.admin(op, **fields)


async def state_of(world: ProcessWorld, key: SigningKey) -> int:
    sidecar: Sidecar = await world.connect(key, Sidecar)
    return (await sidecar.refs()).status


@on_reactor
async def test_a_revocation_that_was_answered_is_not_forgotten(world: ProcessWorld) -> None:
    world.start()
    sidecar = await world.session()
    assert world.admin("session-revoke", session="session-1")["revoked"] == ["session-1"]
    world.kill()
    world.start()
    assert await state_of(world, sidecar.key) == 401
    verify_journal(world.paths.broker_audit)


@pytest.mark.parametrize(
    ("call", "when", "status"),
    [
        ("SqliteStore.end", "after", 401),  # on disk, and only the answer is missing
        ("SqliteStore.end", "before", 200),  # nobody was told that it is over
    ],
)
@on_reactor
async def test_a_revocation_is_whole_or_not_at_all(
    world: ProcessWorld, call: str, when: str, status: int
) -> None:
    dies_at(world, SQLITE, call, when)
    sidecar = await world.session()
    ask_and_lose(world, "session-revoke", session="session-1")
    again(world)
    assert await state_of(world, sidecar.key) == status


@pytest.mark.parametrize(("when", "code"), [("after", "S104"), ("before", None)])
@on_reactor
async def test_a_grants_counter_is_used_up_with_its_session_or_not_at_all(
    world: ProcessWorld, when: str, code: str | None
) -> None:
    dies_at(world, SQLITE, "SqliteStore.admit", when)
    grant = world.grant(SigningKey.generate())
    reply = await (await world.host()).ask("POST", "/host/grant", (), grant)
    assert reply.error
    again(world)
    world.counter = 0
    replay = world.grant(SigningKey.generate(), session="another")
    answer = await (await world.host()).ask("POST", "/host/grant", (), replay)
    assert answer.json().get("code") == code


@on_reactor
async def test_a_session_that_died_before_its_activation_stays_closed(world: ProcessWorld) -> None:
    dies_at(world, SQLITE, "SqliteStore.activate", "before")
    key = SigningKey.generate()
    host = await world.host()
    assert (await host.ask("POST", "/host/grant", (), world.grant(key))).status == 200
    place = b'{"session": "session-1", "pid": 1, "netns": 77, "cgroup": null}'
    assert (await host.ask("POST", "/host/activate", (), place)).error
    again(world)
    assert await state_of(world, key) == 503


def secret(world: ProcessWorld, text: str) -> dict[str, str]:
    return {"name": "v", "username": "u", "secret_b64": base64.b64encode(text.encode()).decode()}


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_rotated_secret_is_the_old_or_the_new_one(world: ProcessWorld, when: str) -> None:
    world.start()
    world.admin("cred-add", **secret(world, "old-marker"))
    world.kill()
    dies_at(world, VAULT, "Vault._write", when)
    ask_and_lose(world, "cred-add", **secret(world, "new-marker"))
    again(world)
    (item,) = [one for one in world.admin("cred-ls")["items"] if one["name"] == "v"]
    assert item["username"] == "u"  # it opens
    sealed = [one.name for one in world.paths.broker_vault.iterdir()]
    assert sealed == ["v.sealed"]


@pytest.mark.parametrize(
    ("module", "call", "when", "changed"),
    [
        ("broker.credentials.own_key", "promote_key", "before", False),
        ("broker.credentials.own_key", "promote_key", "after", True),
        (VAULT, "Vault.use", "before", True),
    ],
)
def test_the_brokers_key_changes_with_the_vault_or_not_at_all(
    world: ProcessWorld, module: str, call: str, when: str, changed: bool
) -> None:
    world.start()
    world.admin("cred-add", **secret(world, "old-marker"))
    world.kill()
    owner = world.paths.broker_key.stat().st_uid
    old = public_text(load_key(world.paths.broker_key, owner))
    new = public_text(load_or_create_key(world.paths.broker_key_next, owner))
    os.chown(world.paths.broker_key_next, owner, -1)
    dies_at(world, module, call, when)
    ask_and_lose(world, "key-switch")
    again(world)
    assert world.admin("status")["key"] == (new if changed else old)
    (item,) = [one for one in world.admin("cred-ls")["items"] if one["name"] == "v"]
    assert item["username"] == "u"
    assert [one.name for one in world.paths.broker_vault.iterdir()] == ["v.sealed"]
    if not changed:
        assert world.admin("key-switch")["key"] == new

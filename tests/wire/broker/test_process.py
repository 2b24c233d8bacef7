"""The broker as a process: how it starts, what it gives up, how it ends."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from nacl.signing import SigningKey
from OpenSSL import SSL
from twisted.internet.defer import ensureDeferred
from twisted.internet.error import ConnectionLost

from gitmoat.audit.chain import verify_journal
from gitmoat.identity.keyfile import public_text
from gitmoat.wire.git.pktline import FLUSH, format_data
from gitmoat.wire.git.smarthttp import Service
from tests.fakes.broker_process import ProcessWorld
from tests.fakes.broker_world import PACK_HEAD, PASSWORD, Sidecar, commands
from tests.fakes.connect_proxy import ConnectProxy
from tests.fakes.fake_upstream import FakeUpstream, ok
from tests.fakes.github_api import APP, INSTALLATION, GitHub, app_pem
from tests.fakes.reactor_tests import on_reactor
from tests.stage.marks import as_root
from tests.waiting import PATIENCE

REFS = ok(Service.UPLOAD_PACK, "advertisement", format_data(b"version 2\n") + FLUSH)
BAD_PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


@pytest.fixture
def upstream() -> Iterator[FakeUpstream]:
    from twisted.internet import reactor

    fake = FakeUpstream(reactor)
    fake.answers(REFS)
    yield fake
    pytest_twisted.blockon(ensureDeferred(fake.close()))


@pytest.fixture
def world(tmp_path: Path, upstream: FakeUpstream) -> Iterator[ProcessWorld]:
    from twisted.internet import reactor

    made = ProcessWorld(reactor, tmp_path, upstream.port)
    yield made
    made.hang_up()
    if hasattr(made, "process") and made.process.poll() is None:
        made.kill()


def files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


@as_root
@on_reactor
async def test_it_serves_under_its_own_uid_below_a_directory_it_could_not_enter(
    world: ProcessWorld, upstream: FakeUpstream
) -> None:
    world.paths.root.chmod(0o700)
    world.start()
    assert world.status_of("Uid").split() == ["1999999999"] * 4
    assert world.status_of("Gid").split() == ["1999999999"] * 4
    assert world.status_of("Groups") == ""
    assert {world.status_of(f"Cap{kind}") for kind in ("Eff", "Prm", "Inh", "Bnd", "Amb")} == {
        "0" * 16
    }
    assert (world.status_of("NoNewPrivs"), world.status_of("Seccomp")) == ("1", "2")
    sidecar = await world.session()
    assert (await sidecar.refs()).status == 200
    assert upstream.heads


@as_root
@on_reactor
async def test_its_journal_goes_on_in_new_files_under_its_own_uid(world: ProcessWorld) -> None:
    world.write_config('[audit]\nsegment = "1KiB"\nkeep = 3\n')
    world.start()
    sidecar = await world.session()
    for _ in range(12):
        assert (await sidecar.refs()).status == 200
    names = sorted(path.name for path in world.paths.broker_audit.parent.glob("audit-*.ndjson"))
    assert len(names) == 3
    assert names[0] > "audit-000000000001.ndjson"
    verified = verify_journal(world.paths.broker_audit)
    assert verified.first > 1 and verified.first + verified.count > 20


@as_root
@on_reactor
async def test_nothing_is_imported_after_the_uid_is_dropped(
    world: ProcessWorld, upstream: FakeUpstream
) -> None:
    assert world.launch(watched=True) == b"ready\n"
    world.learn()
    sidecar = await world.session()
    assert (await sidecar.refs()).status == 200
    assert (await sidecar.fetch()).status == 200
    assert (await sidecar.push(commands("refs/heads/main") + PACK_HEAD)).status == 200
    assert (await sidecar.refs("acme/other")).status == 404
    assert (await sidecar.push(b"zzzz")).status == 400
    raw = await world.connect_raw(sidecar.key)
    raw.say(b"GARBAGE\r\n\r\n")
    await upstream.close()
    fresh: Sidecar = await world.connect(sidecar.key, Sidecar)
    assert (await fresh.refs()).status == 502
    assert await _refused(world, SigningKey.generate())
    for op in ("reload", "session-ls", "cred-ls", "audit-head", "nonsense"):
        world.admin(op)
    world.admin("cred-add", name="x", username="u", secret_b64="YQ==")
    world.admin("session-show", session="session-1")
    (world.paths.etc / "token").unlink()
    assert "error" in world.admin("reload")
    world.admin("session-revoke", all=True)
    assert world.end() == 0
    assert "LATE IMPORT" not in world.log.read_text()
    assert "Traceback" not in world.log.read_text()


async def _refused(world: ProcessWorld, key: SigningKey) -> bool:
    try:
        stranger: Sidecar = await world.connect(key, Sidecar)
    except (SSL.Error, ConnectionLost):
        return True
    return bool((await stranger.refs()).error)


def test_a_termination_ends_it_cleanly_and_leaves_a_whole_journal(world: ProcessWorld) -> None:
    world.start()
    assert world.end() == 0
    assert [one["event"] for one in world_events(world)] == ["daemon.started", "daemon.stopped"]
    verify_journal(world.paths.broker_audit)


def world_events(world: ProcessWorld) -> list[dict[str, Any]]:
    return [*world.audit("daemon.started"), *world.audit("daemon.stopped")]


def test_shutdown_by_the_admin_ends_it_too(world: ProcessWorld) -> None:
    world.start()
    assert world.admin("shutdown") == {"ok": True}
    assert world.process.wait(PATIENCE) == 0


def test_a_port_in_use_is_one_clear_error_and_changes_nothing(world: ProcessWorld) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text = world.paths.broker_toml.read_text().replace("127.0.0.1:0", f"127.0.0.1:{port}")
        world.write("broker.toml", text, 0o640)
        world.log.touch()
        before = files(world.paths.root)
        said = world.launch()
    assert world.process.wait(PATIENCE) == 1
    assert said.count(b"\n") == 1 and b'"code": "C104"' in said and str(port).encode() in said
    assert files(world.paths.root) == before
    assert "Traceback" not in world.log.read_text()


def test_a_second_broker_on_the_same_root_is_refused_and_the_first_lives_on(
    world: ProcessWorld,
) -> None:
    world.start()
    first = world.process
    said = world.launch()
    assert world.process.wait(PATIENCE) == 1 and b'"code": "C104"' in said
    world.process = first
    assert world.admin("status")["healthy"] is True


@pytest.mark.parametrize(
    ("break_it", "code", "told"),
    [
        (lambda w: w.write_config("surprise = 1"), "B104", "host.one.surprise"),
        (lambda w: w.paths.broker_toml.unlink(), "B104", "broker.toml"),
        (lambda w: w.paths.broker_toml.chmod(0o666), "B104", "can be changed by others"),
        (lambda w: (w.paths.etc / "token").unlink(), "U105", "token"),
        (lambda w: (w.paths.etc / "token").chmod(0o644), "U105", "too open"),
        (lambda w: (w.paths.etc / "ca.pem").write_text("x"), "B104", "upstream.up.ca_file"),
        (lambda w: (w.paths.etc / "ca.pem").write_text(BAD_PEM), "B104", "upstream.up.ca_file"),
        (lambda w: (w.paths.root / "run").symlink_to("/tmp"), "C101", "symlink"),
        (lambda w: (w.paths.root / "run/gitmoat").mkdir(0o777, parents=True), "C101", "write"),
    ],
)
def test_bad_input_is_one_clear_error(
    world: ProcessWorld, break_it: Any, code: str, told: str
) -> None:
    os.umask(0)
    break_it(world)
    os.umask(0o022)
    said = world.launch().decode()
    assert world.process.wait(PATIENCE) == 1
    assert said.count("\n") == 1 and f'"code": "{code}"' in said and told in said
    assert not (world.paths.root / "var").exists()
    assert PASSWORD not in said + world.log.read_text()


def test_a_damaged_store_or_journal_is_refused(world: ProcessWorld) -> None:
    world.start()
    world.end()
    world.paths.broker_audit.write_bytes(b"{}\n")
    assert b'"code": "B103"' in world.launch()
    assert world.process.wait(PATIENCE) == 1
    world.paths.broker_audit.unlink()
    for name in ("store.sqlite-wal", "store.sqlite-shm"):
        (world.paths.broker_state / name).unlink(missing_ok=True)
    world.paths.broker_store.write_bytes(b"nonsense " * 999)
    said = world.launch()
    assert b'"code": "B103"' in said and b"store" in said
    assert world.process.wait(PATIENCE) == 1
    assert world.paths.broker_store.read_bytes() == b"nonsense " * 999


def test_a_stale_admin_socket_is_replaced(world: ProcessWorld) -> None:
    world.start()
    world.kill()
    assert world.paths.broker_admin_socket.exists()
    world.start()
    assert world.admin("status")["ok"] is True


@on_reactor
async def test_after_a_kill_sessions_go_on_and_used_counters_stay_used(world: ProcessWorld) -> None:
    world.start()
    sidecar = await world.session()
    assert (await sidecar.refs()).status == 200
    world.kill()
    world.start()
    again: Sidecar = await world.connect(sidecar.key, Sidecar)
    assert (await again.refs()).status == 200
    replay = await (await world.host()).ask(
        "POST", "/host/grant", (), world.grant(SigningKey.generate(), counter=1)
    )
    assert replay.json()["code"] == "S104"
    verify_journal(world.paths.broker_audit)


def test_a_reload_takes_everything_or_nothing(world: ProcessWorld) -> None:
    world.start()
    path = world.paths.broker_d / "more.toml"
    path.write_text('[provider.more]\ntype = "vault"\n')
    path.chmod(0o644)
    world.paths.broker_d.chmod(0o755)
    assert world.admin("reload")["providers"] == ["more", "token"]
    path.write_text("[provider.more]\nsurprise = 1\n")
    error = world.admin("reload")["error"]
    assert error["code"] == "B104" and "provider.more" in error["why"] and error["fix"]
    names = [one["name"] for one in world.admin("cred-ls")["items"]]
    assert names == ["more", "token"]
    path.unlink()
    text = world.paths.broker_toml.read_text().replace('idle = "3s"', 'idle = "4s"')
    world.write("broker.toml", text, 0o640)
    assert "restart" in world.admin("reload")["error"]["what"]


def test_no_secret_is_in_its_arguments_environment_or_log(world: ProcessWorld) -> None:
    world.start()
    world.admin("cred-add", name="x", username="u", secret_b64="c2VhbGVkLW1hcmtlcg==")
    place = Path(f"/proc/{world.process.pid}")
    seen = (place / "cmdline").read_bytes() + (place / "environ").read_bytes()
    world.end()
    seen += world.log.read_bytes() + world.paths.broker_audit.read_bytes()
    seen += world.paths.broker_store.read_bytes()
    seen += (world.paths.broker_vault / "x.sealed").read_bytes()
    for marker in (PASSWORD.encode(), b"sealed-marker", b"c2VhbGVkLW1hcmtlcg"):
        assert marker not in seen


@as_root
@on_reactor
async def test_a_confined_broker_mints_tokens_through_a_proxy_without_a_late_import(
    world: ProcessWorld, upstream: FakeUpstream
) -> None:
    github = GitHub(upstream)
    proxy = ConnectProxy(world.reactor)
    key = world.write("app.pem", app_pem(), 0o400, owner=1999999999)
    world.write_config(
        f'[provider.app]\ntype = "github-app"\napp_id = {APP}\n'
        f'installation_id = {INSTALLATION}\nprivate_key_file = "{key}"\n'
    )
    text = world.paths.broker_toml.read_text()
    text = text.replace('provider = "token"', 'provider = "app"')
    line = f'[upstream.up]\nproxy = "http://127.0.0.1:{proxy.port}"\n'
    world.write("broker.toml", text.replace("[upstream.up]\n", line), 0o640)
    assert world.launch(watched=True) == b"ready\n", world.log.read_text()
    world.learn()
    sidecar = await world.session()
    assert (await sidecar.refs()).status == 200
    github.skew = 9000
    github.forget_tokens()
    assert (await sidecar.refs()).status == 200
    github.refusal = b"HTTP/1.1 403 X\r\nRetry-After: 30\r\nContent-Length: 0\r\n\r\n"
    assert (await sidecar.refs("acme/gate", tier="helper")).status == 502
    github.refusal = None
    await proxy.close()
    assert world.end() == 0
    assert "LATE IMPORT" not in world.log.read_text(), world.log.read_text()
    assert "Traceback" not in world.log.read_text()


def test_a_key_that_somebody_else_keeps_is_used_and_not_replaced(world: ProcessWorld) -> None:
    key = world.write("own.key", "07" * 32 + "\n", 0o400)
    os.chown(key, 0, 0)
    text = world.paths.broker_toml.read_text()
    world.write("broker.toml", f'{text}\n[process]\nkey_file = "{key}"\n', 0o640)
    world.start()
    status = world.admin("status")
    assert status["key"] == public_text(SigningKey(b"\7" * 32))
    assert status["key_since"] == int(key.stat().st_mtime)
    assert not world.paths.broker_key.exists()
    assert world.admin("key-switch")["error"]["code"] == "B102"
    world.end()
    key.chmod(0o444)
    assert b"C101" in world.launch()
    assert world.process.wait(PATIENCE) == 1
    key.unlink()
    assert b"B104" in world.launch()
    assert world.process.wait(PATIENCE) == 1

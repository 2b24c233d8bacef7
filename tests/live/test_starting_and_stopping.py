"""Starting, configuring and stopping: bad input is one clear error, and nothing is changed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.stage.command import Ran, outcome
from tests.stage.gitmoat import Gitmoat
from tests.stage.instance import Instance, make_instance
from tests.stage.nobody import as_nobody
from tests.waiting import PATIENCE, eventually

BROKER = 1999999999


@pytest.fixture
def instance() -> Iterator[Instance]:
    made = make_instance()
    yield made
    made.remove()


def one_error(ran: Ran, code: str, exit_code: int, *words: str) -> None:
    """What with its code, why, fix; the exit code of the interface; no traceback."""
    lines = [line for line in ran.err.splitlines() if not line.startswith("starting ")]
    assert ran.code == exit_code, ran
    assert len(lines) == 3, ran.err
    assert lines[0].startswith("error: ") and lines[0].endswith(f"[{code}]"), ran.err
    assert lines[1].startswith("why: ") and lines[2].startswith("fix: "), ran.err
    for word in words:
        assert word in ran.err, ran.err


# Starting


def test_up_is_idempotent_and_down_leaves_only_what_was_configured(instance: Instance) -> None:
    before = instance.files()
    first = instance.hostctl("up")
    assert first.code == 0 and first.out.startswith("gitmoat is up: broker pid ")
    pids = [instance.status()[name]["pid"] for name in ("broker", "hostd")]
    second = instance.hostctl("up")
    assert second.code == 0 and second.out.startswith("gitmoat was up already: ")
    assert [instance.status()[name]["pid"] for name in ("broker", "hostd")] == pids
    assert instance.hostctl("down").out == "gitmoat is down\n"
    assert not list(instance.paths.run.glob("*.sock"))
    assert instance.hostctl("down").out == "gitmoat was not running\n"
    assert instance.running() == []
    assert not instance.paths.hostd_socket.exists()
    etc = {name: text for name, text in instance.files().items() if name.startswith("etc")}
    assert etc == {name: text for name, text in before.items() if name.startswith("etc")}


def test_stale_sockets_are_replaced(instance: Instance) -> None:
    for path in (instance.paths.hostd_socket, instance.paths.broker_admin_socket):
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(str(path))
    assert instance.hostctl("ls").code == 5
    assert instance.hostctl("up").code == 0
    assert instance.hostctl("ls").code == 0


def test_daemons_that_were_killed_are_started_again(instance: Instance) -> None:
    instance.hostctl("up").expect_success("up")
    instance.kill()
    eventually(lambda: instance.running() == [], "everything to end")
    assert instance.paths.hostd_socket.exists()
    one_error(instance.hostctl("ls"), "C103", 5, "hostd is not running", "hostctl up")
    instance.hostctl("up").expect_success("up")
    ran = instance.hostctl("run", "--rm", "--", "sh", "-c", "exit 3")
    assert ran.code == 3, ran.err


def test_a_symlinked_run_directory_is_refused_and_what_it_points_to_left_alone(
    instance: Instance,
) -> None:
    elsewhere = instance.root / "elsewhere"
    instance.paths.run.rename(elsewhere)
    instance.paths.run.symlink_to(elsewhere)
    before = sorted(elsewhere.iterdir())
    one_error(instance.hostctl("up"), "C101", 7, "symlink")
    one_error(instance.hostctl("ls"), "C101", 7, "symlink")
    assert instance.running() == []
    assert sorted(elsewhere.iterdir()) == before


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_run_directory_that_others_can_write_is_refused(instance: Instance, mode: int) -> None:
    instance.paths.run.chmod(mode)
    one_error(instance.hostctl("up"), "C101", 7, "write")
    assert instance.running() == []
    instance.paths.run.chmod(0o700)


def test_a_run_directory_of_somebody_else_is_refused(instance: Instance) -> None:
    os.chown(instance.paths.run, 4321, 4321)
    one_error(instance.hostctl("up"), "C101", 7, "uid 4321")
    assert instance.running() == []
    os.chown(instance.paths.run, 0, 0)


def test_a_port_in_use_is_one_error_and_nothing_is_left_running(instance: Instance) -> None:
    with socket.socket() as squatter:
        squatter.bind(instance.address)
        squatter.listen()
        ran = instance.hostctl("up")
    one_error(ran, "C104", 1, str(instance.address[1]), "broker.toml", "hostd.toml")
    assert instance.running() == []
    instance.hostctl("up").expect_success("up, once the port is free")


def test_the_first_up_gives_the_broker_a_port_that_is_free(instance: Instance) -> None:
    instance.paths.broker_toml.unlink()
    instance.paths.hostd_toml.unlink()
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):  # somebody else listens there
            squatter.bind(("127.0.0.1", 8443))
            squatter.listen()
        ran = instance.hostctl("up")
        assert instance.address != ("127.0.0.1", 8443)
        assert f"on 127.0.0.1:{instance.address[1]}, hostd" in ran.out
        assert instance.hostctl("status").code == 0


def test_a_hostd_that_is_told_another_address_says_that_it_has_no_broker(
    instance: Instance,
) -> None:
    host, port = instance.address
    with socket.socket() as elsewhere:
        elsewhere.bind((host, 0))  # nobody listens there
        other = f"{host}:{elsewhere.getsockname()[1]}"
        text = instance.paths.hostd_toml.read_text()
        instance.paths.hostd_toml.write_text(text.replace(f"{host}:{port}", other))
        up = instance.hostctl("up")
        assert up.code == 1 and f"nothing answers at {other}" in up.err
        told = instance.hostctl("status")
        assert told.code == 1
        assert (
            f"unhealthy: the broker cannot be reached (B101): nothing answers at {other}"
            in told.out
        )
        assert "listen.address in broker.toml and broker.address in hostd.toml" in told.err
        doctor = instance.hostctl("doctor")
        assert doctor.code == 6 and f"nothing answers at {other}" in doctor.out
        again = instance.hostctl("up")
        assert again.code == 1 and "was up already" in again.out


def test_while_a_journal_cannot_be_written_status_says_so_and_doctor_keeps_the_socket(
    instance: Instance,
) -> None:
    instance.hostctl("up").expect_success("up")
    instance.paths.broker_audit.rename(instance.paths.broker_audit.with_name("away"))
    ran = instance.hostctl("run", "--", "true")
    assert "B103" in ran.err
    told = instance.hostctl("status")
    assert told.code == 1 and "B103" in told.out
    assert instance.hostctl("doctor", "--fix").code == 6
    assert instance.paths.broker_admin_socket.exists()
    assert "was up already" in instance.hostctl("up").out
    instance.paths.broker_audit.with_name("away").rename(instance.paths.broker_audit)
    assert instance.hostctl("status").code == 0


@pytest.mark.parametrize("name", ["hostd.toml", "broker.toml"])
def test_an_unknown_key_is_named_and_nothing_is_left_running(instance: Instance, name: str) -> None:
    path = instance.paths.etc / name
    path.write_text(path.read_text() + '\n[listen2]\nadress = "x"\n')
    ran = instance.hostctl("up")
    one_error(ran, "N104" if name == "hostd.toml" else "B104", 8, "listen2", name)
    assert instance.running() == []


@pytest.mark.parametrize("name", ["hostd.toml", "broker.toml"])
def test_a_file_that_is_not_toml_is_named(instance: Instance, name: str) -> None:
    (instance.paths.etc / name).write_text("version = = 1\n")
    ran = instance.hostctl("up")
    one_error(ran, "N104" if name == "hostd.toml" else "B104", 8, name)
    assert instance.running() == []


def test_a_key_file_that_others_can_read_is_refused(instance: Instance) -> None:
    instance.paths.host_key.chmod(0o644)
    ran = instance.hostctl("up")
    one_error(ran, "C101", 7, "host.key")
    assert instance.running() == []


def test_two_starts_at_the_same_time_give_one_instance(instance: Instance) -> None:
    started = [instance.begin("up") for _ in range(2)]
    codes = sorted(outcome(process).code for process in started)
    assert codes[0] == 0
    about = instance.status()
    assert about["broker"]["healthy"] and about["hostd"]["healthy"]
    assert sum("-m\0broker" in line for line in instance.running()) == 1
    assert sum("-m\0hostd\0" in line for line in instance.running()) == 1


# Who may ask


def test_without_daemons_every_verb_fails_in_the_same_words(instance: Instance) -> None:
    for words in (
        ["ls"],
        ["run", "--", "true"],
        ["exec", "x", "--", "true"],
        ["git", "x", "--", "fetch"],
        ["inspect", "x"],
        ["rm", "x"],
        ["ls", "--fleet"],
        ["session", "revoke", "--all"],
    ):
        code = 125 if words[0] in ("run", "exec") else 5
        one_error(instance.hostctl(*words), "C103", code, "is not running", "hostctl up")


def test_another_uid_is_told_that_it_is_not_permitted(stage: Gitmoat) -> None:
    before = stage.hostctl("ls", "-q").out
    for words in (["ls"], ["run", "--", "true"], ["exec", "x", "--", "id"], ["ls", "--fleet"]):
        done = as_nobody(stage.root, *words)
        ran = Ran(done.returncode, done.stdout, done.stderr)
        code = 125 if words[0] in ("run", "exec") else 7
        one_error(ran, "C102", code, "run hostctl as root")
    assert stage.hostctl("ls", "-q").out == before


# Connects although the directory and the socket's mode say no.
INTRUDER = """
import json, socket, sys
sock = socket.socket(socket.AF_UNIX)
sock.settimeout(100)
sock.connect(sys.argv[1])
try:
    sock.sendall(json.dumps({"op": sys.argv[2]}).encode() + b"\\n")
    answer = sock.recv(65536)
except (BrokenPipeError, ConnectionResetError):
    answer = b""
sys.exit(f"answered {answer!r}" if answer else 0)
"""


@pytest.mark.parametrize(
    ("name", "op"), [("hostd.sock", "status"), ("broker-admin.sock", "status")]
)
def test_a_peer_that_is_not_root_is_refused_even_if_it_reaches_the_socket(
    stage: Gitmoat, name: str, op: str
) -> None:
    path = str(stage.paths.run / name)
    rights = ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]
    command = ["setpriv", "--reuid=4321", "--regid=4321", "--clear-groups", *rights]
    script = ["/usr/bin/python3", "-IS", "-c", INTRUDER, path, op]
    done = subprocess.run([*command, *script], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
    journal = stage.paths.hostd_audit if name == "hostd.sock" else stage.paths.broker_audit

    def told() -> bool:
        refused = [line for line in journal.read_text().splitlines() if '"peer.refused"' in line]
        return any('"peer_uid":4321' in line for line in refused)

    eventually(told, "its record")


# Policies


def test_an_unknown_policy_key_is_named_and_no_sandbox_is_made(
    stage: Gitmoat, tmp_path: Path
) -> None:
    before = stage.hostctl("ls", "-q").out
    policy = tmp_path / "wrong.toml"
    text = 'version = 1\nname = "x"\n[[git]]\nid = "a"\nrepos = ["demo:acme/app"]\nfecth = true\n'
    policy.write_text(text)
    ran = stage.hostctl("run", "--policy", str(policy), "--", "true")
    one_error(ran, "P101", 125, "fecth", str(policy))
    assert stage.hostctl("ls", "-q").out == before


@pytest.mark.parametrize("comment", ["é" * 180_000, "é" * 100_000, "\N{EUROPEAN CASTLE}" * 250_000])
def test_a_policy_may_say_a_lot_in_any_language(
    stage: Gitmoat, tmp_path: Path, comment: str
) -> None:
    policy = tmp_path / "long.toml"
    policy.write_text(f'version = 1\nname = "x"\n# {comment}\n', encoding="utf-8")
    ran = stage.hostctl("run", "--rm", "--policy", str(policy), "--", "echo", "done")
    assert ran.out == "done\n", ran


def test_a_policy_that_is_not_there_is_one_error(stage: Gitmoat) -> None:
    one_error(
        stage.hostctl("run", "--policy", "nothing", "--", "true"), "P102", 125, "nothing.toml"
    )


def test_a_policy_without_the_repository_refuses_to_clone_it(stage: Gitmoat) -> None:
    ran = stage.hostctl("run", "--policy", "play", "--repo", stage.url("acme/app"), "--", "true")
    assert ran.code == 125
    assert "[G101]" in ran.err or "[G105]" in ran.err


# Credentials and upstreams


@pytest.fixture
def token(stage: Gitmoat) -> Iterator[Path]:
    """Where the broker's uid could read it."""
    folder = stage.paths.etc / "tokens"
    folder.mkdir()
    path = folder / "token"
    path.write_text("a-secret-of-this-test\n")
    path.chmod(0o600)
    yield path
    shutil.rmtree(folder)


def _unreadable_for_the_broker(token: Path) -> None:
    os.chown(token, 0, 0)


def _readable_by_others(token: Path) -> None:
    token.chmod(0o644)


def _somebody_elses(token: Path) -> None:
    os.chown(token, 4321, BROKER)
    token.chmod(0o640)


def _missing(token: Path) -> None:
    token.unlink()


def _directory(token: Path) -> None:
    token.unlink()
    token.mkdir()


def _symlink(token: Path) -> None:
    token.rename(token.with_name("real"))
    token.symlink_to("real")


@pytest.mark.parametrize(
    "spoil",
    [
        _missing,
        _directory,
        _symlink,
        _readable_by_others,
        _somebody_elses,
        _unreadable_for_the_broker,
    ],
    ids=lambda spoil: spoil.__name__.strip("_"),
)
def test_an_unusable_credential_file_is_one_error_and_changes_nothing(
    stage: Gitmoat, token: Path, spoil: Callable[[Path], None]
) -> None:
    spoil(token)
    before = {path: path.read_bytes() for path in stage.paths.broker_d.iterdir()}
    known = stage.hostctl("cred", "ls").out
    ran = stage.hostctl("cred", "add", "broken", "--file", str(token))
    one_error(ran, "U105", 8, str(token))
    assert "a-secret" not in ran.err + ran.out
    assert {path: path.read_bytes() for path in stage.paths.broker_d.iterdir()} == before
    assert stage.hostctl("cred", "ls").out == known
    works = stage.hostctl("run", "--rm", "--repo", stage.url("acme/app"), "--", "true")
    assert works.code == 0, works.err


@pytest.mark.parametrize(
    ("url", "word"), [("http://localhost", "https"), ("https://u:p@localhost", "https")]
)
def test_an_unusable_upstream_is_one_error_and_changes_nothing(
    stage: Gitmoat, url: str, word: str
) -> None:
    before = sorted(stage.paths.broker_d.iterdir())
    ran = stage.hostctl("upstream", "add", "broken", "--url", url, "--cred", "demo")
    one_error(ran, "B104", 8, word)
    assert sorted(stage.paths.broker_d.iterdir()) == before


def test_an_upstream_with_an_unknown_credential_is_one_error(stage: Gitmoat) -> None:
    before = sorted(stage.paths.broker_d.iterdir())
    ran = stage.hostctl("upstream", "add", "x", "--url", "https://h.example", "--cred", "nobody")
    one_error(ran, "B104", 8, "upstream.x.provider")
    assert sorted(stage.paths.broker_d.iterdir()) == before


def test_a_credential_file_is_used_and_read_again_when_it_changes(fresh_stage: Gitmoat) -> None:
    """With a wrong password first: upstream refuses it, and the owner is told so."""
    stage = fresh_stage
    secret = stage.paths.etc / "demo.token"
    secret.write_text("wrong\n")
    os.chown(secret, 0, BROKER)
    secret.chmod(0o640)
    stage.hostctl("upstream", "rm", "demo").expect_success("upstream rm")
    user = ("--username", stage.upstream.user)
    stage.hostctl("cred", "add", "file", "--file", str(secret), *user).expect_success("cred add")
    ca_file = str(stage.paths.etc / "demo-ca.pem")
    words = ("--url", stage.upstream.url, "--ca-file", ca_file, "--cred", "file")
    stage.hostctl("upstream", "add", "demo", *words).expect_success("upstream add")
    run = ("run", "--rm", "--repo", stage.url("acme/app"), "--", "git", "log", "--oneline")
    refused = stage.hostctl(*run)
    assert refused.code == 125
    assert "U102" in refused.err
    secret.write_text(stage.upstream.password + "\n")
    stage.hostctl(*run).expect_success("run with the right password")

"""`cred add` and `upstream add`: in force when the broker takes it, gone when it does not."""

from __future__ import annotations

import base64
import json
import os
import signal
import stat
import termios
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import Hostctl
from tests.cli.terminal import Terminal
from tests.fakes.daemon import FakeDaemon, Message

REFUSAL: Message = {
    "error": {
        "code": "B104",
        "what": "broker configuration invalid",
        "why": "upstream-corp.toml: upstream.corp.url: is not https://HOST[:PORT]",
        "fix": "only https, no user, path or query",
    }
}
BROKER_GID = 1999999999


@pytest.fixture
def broker_d(root: Path) -> Path:
    path = root / "etc" / "gitmoat" / "broker.d"
    path.mkdir(parents=True)
    return path


@pytest.fixture
def broker(root: Path, broker_d: Path) -> Iterator[FakeDaemon]:
    vault: Message = {"name": "corp", "type": "vault"}
    operations: dict[str, Message] = {
        "reload": {"ok": True},
        "cred-add": {"ok": True},
        "cred-ls": {"ok": True, "items": [vault]},
    }
    with FakeDaemon(root / "run" / "gitmoat" / "broker-admin.sock", operations) as daemon:
        yield daemon


@pytest.fixture
def refusing_broker(root: Path, broker_d: Path) -> Iterator[FakeDaemon]:
    operations: dict[str, Message] = {"reload": REFUSAL, "cred-add": {"ok": True}}
    with FakeDaemon(root / "run" / "gitmoat" / "broker-admin.sock", operations) as daemon:
        yield daemon


def test_an_upstream_becomes_one_file_that_only_root_and_broker_read(
    broker: FakeDaemon, broker_d: Path, hostctl: Hostctl
) -> None:
    more = ("--also", "www.corp.example", "--ca-file", "/etc/ca.pem", "--case-insensitive", "yes")
    words = ("upstream", "add", "corp", "--url", "https://git.corp.example:8443", "--cred", "corp")
    done = hostctl(*words, *more)
    assert (done.returncode, done.stdout) == (
        0,
        "added upstream corp: https://git.corp.example:8443\n",
    )
    path = broker_d / "upstream-corp.toml"
    assert tomllib.loads(path.read_text()) == {
        "upstream": {
            "corp": {
                "url": "https://git.corp.example:8443",
                "also": ["www.corp.example"],
                "ca_file": "/etc/ca.pem",
                "case_insensitive": True,
                "provider": "corp",
            }
        }
    }
    found = path.stat()
    assert (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid) == (0o640, 0, BROKER_GID)
    assert broker.requests == [{"op": "reload"}]


def test_a_refused_upstream_leaves_nothing_behind(
    refusing_broker: FakeDaemon, broker_d: Path, hostctl: Hostctl
) -> None:
    done = hostctl("upstream", "add", "corp", "--url", "http://git", "--cred", "corp")
    assert done.returncode == 8
    assert done.stderr.splitlines() == [
        "error: broker configuration invalid [B104]",
        "why: upstream-corp.toml: upstream.corp.url: is not https://HOST[:PORT]",
        "fix: only https, no user, path or query",
    ]
    assert list(broker_d.iterdir()) == []


def test_a_second_upstream_of_the_same_name_is_refused(
    broker: FakeDaemon, broker_d: Path, hostctl: Hostctl
) -> None:
    words = ("upstream", "add", "corp", "--url", "https://git.corp.example", "--cred", "corp")
    assert hostctl(*words).returncode == 0
    before = (broker_d / "upstream-corp.toml").read_text()
    done = hostctl(*words[:4], "https://other.example", "--cred", "corp")
    assert done.returncode == 1
    assert "[C109]" in done.stderr
    assert "fix: choose another name, or `hostctl upstream rm corp` first" in done.stderr
    assert (broker_d / "upstream-corp.toml").read_text() == before


def test_whoever_wrote_it_with_an_editor_removes_it_with_one(
    broker: FakeDaemon, broker_d: Path, hostctl: Hostctl
) -> None:
    (broker_d / "mine.toml").write_text('[upstream.corp]\nurl = "https://git.example"\n')
    done = hostctl("upstream", "add", "corp", "--url", "https://other.example", "--cred", "corp")
    assert f"or remove it from {broker_d / 'mine.toml'} first" in done.stderr


@pytest.mark.parametrize(
    ("url", "folds"),
    [
        ("https://github.com", "true"),
        ("https://GitHub.com:443/", "true"),
        ("https://github.com.example", "false"),
        ("https://git.corp.example", "false"),
    ],
)
def test_names_are_taken_as_spelt_unless_the_server_is_known_to_fold_them(
    url: str, folds: str, broker: FakeDaemon, broker_d: Path, hostctl: Hostctl
) -> None:
    assert hostctl("upstream", "add", "any", "--url", url, "--cred", "corp").returncode == 0
    written = (broker_d / "upstream-any.toml").read_text()
    assert f"case_insensitive = {folds}\n" in written


def test_removing_an_upstream_is_taken_back_when_the_broker_refuses(
    refusing_broker: FakeDaemon, broker_d: Path, hostctl: Hostctl
) -> None:
    path = broker_d / "upstream-corp.toml"
    path.write_text("[upstream.corp]\n")
    assert hostctl("upstream", "rm", "corp").returncode == 8
    assert [file.name for file in broker_d.iterdir()] == ["upstream-corp.toml"]


def test_removing_an_upstream(broker: FakeDaemon, broker_d: Path, hostctl: Hostctl) -> None:
    (broker_d / "upstream-corp.toml").write_text('[upstream.corp]\nurl = "https://git"\n')
    assert "https://git" in hostctl("upstream", "ls").stdout
    assert hostctl("upstream", "rm", "corp").stdout == "removed upstream corp\n"
    assert list(broker_d.iterdir()) == []
    assert hostctl("upstream", "rm", "corp").returncode == 4


def test_a_secret_from_stdin_goes_to_the_broker_and_into_no_file(
    broker: FakeDaemon, root: Path, broker_d: Path, hostctl: Hostctl
) -> None:
    done = hostctl("cred", "add", "corp", "--stdin", "--username", "bot", stdin="s3cret-value\n")
    assert (done.returncode, done.stdout) == (0, "added credential corp (vault)\n")
    encoded = base64.b64encode(b"s3cret-value").decode()
    sent = {"op": "cred-add", "name": "corp", "username": "bot", "secret_b64": encoded}
    assert broker.requests == [sent, {"op": "reload"}]
    written = (broker_d / "provider-corp.toml").read_text()
    assert tomllib.loads(written) == {"provider": {"corp": {"type": "vault"}}}
    files = [path for path in root.rglob("*") if path.is_file()]
    assert not [path for path in files if b"s3cret" in path.read_bytes()]


def test_only_one_newline_is_taken_off_a_secret(broker: FakeDaemon, hostctl: Hostctl) -> None:
    hostctl("cred", "add", "corp", "--stdin", stdin=" a b \n\n")
    assert base64.b64decode(broker.requests[0]["secret_b64"]) == b" a b \n"


@pytest.mark.parametrize(
    ("secret", "word"), [("", "empty"), ("\n", "empty"), ("x" * 65537, "64 KiB")]
)
def test_an_unusable_secret_is_refused_before_anything_is_asked(
    broker: FakeDaemon, broker_d: Path, hostctl: Hostctl, secret: str, word: str
) -> None:
    done = hostctl("cred", "add", "corp", "--stdin", stdin=secret)
    assert done.returncode == 2
    assert word in done.stderr
    assert broker.requests == []
    assert list(broker_d.iterdir()) == []


def test_a_secret_of_exactly_64_kib_is_taken(broker: FakeDaemon, hostctl: Hostctl) -> None:
    assert hostctl("cred", "add", "corp", "--stdin", stdin="x" * 65536).returncode == 0


def test_a_second_add_does_not_replace_the_sealed_secret(
    broker: FakeDaemon, hostctl: Hostctl
) -> None:
    hostctl("cred", "add", "corp", "--stdin", stdin="one")
    done = hostctl("cred", "add", "corp", "--stdin", stdin="two")
    assert done.returncode == 1
    assert [request["op"] for request in broker.requests] == ["cred-add", "reload"]


@pytest.mark.parametrize("words", [["add"], ["add", "--stdin"], ["rotate"], ["rotate", "--stdin"]])
def test_a_terminal_is_asked_for_the_secret_and_does_not_show_it(
    words: list[str], broker: FakeDaemon, root: Path
) -> None:
    action, *option = words
    terminal = Terminal(root, "cred", action, "corp", *option)
    terminal.read_until(b"secret of corp (it is not shown): ")
    assert not termios.tcgetattr(terminal.master)[3] & termios.ECHO
    terminal.type(b"typed-in-secret\r")
    said = terminal.rest()
    after = termios.tcgetattr(terminal.master)
    terminal.close()
    assert terminal.process.returncode == 0
    assert b"typed-in-secret" not in said
    assert after[3] & termios.ECHO
    (sealed,) = (each for each in broker.requests if each["op"] == "cred-add")
    assert base64.b64decode(str(sealed["secret_b64"])) == b"typed-in-secret"


@pytest.mark.parametrize(
    "typed, what",
    [(b"\r", b"no secret was entered"), (b"x" * 5000 + b"\r", b"longer than a line of a terminal")],
)
def test_what_is_no_secret_is_refused_at_the_terminal(
    typed: bytes, what: bytes, broker: FakeDaemon, root: Path
) -> None:
    terminal = Terminal(root, "cred", "add", "corp")
    terminal.read_until(b"(it is not shown): ")
    terminal.type(typed)
    said = terminal.rest()
    terminal.close()
    assert what in said
    assert (terminal.process.returncode, broker.requests) == (2, [])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_at_the_question_brings_the_echo_back(
    number: signal.Signals, broker: FakeDaemon, root: Path
) -> None:
    terminal = Terminal(root, "cred", "add", "corp")
    terminal.read_until(b"(it is not shown): ")
    terminal.process.send_signal(number)
    terminal.rest()
    after = termios.tcgetattr(terminal.master)
    terminal.close()
    assert after[3] & termios.ECHO
    assert (terminal.process.returncode, broker.requests) == (128 + number, [])


@pytest.mark.parametrize("action", ["add", "rotate"])
def test_without_a_terminal_somebody_has_to_say_where_the_secret_is(
    action: str, broker: FakeDaemon, hostctl: Hostctl
) -> None:
    done = hostctl("cred", action, "corp", stdin="s3cret")
    assert done.returncode == 2
    assert f"fix: hostctl cred {action} corp --stdin < FILE" in done.stderr
    assert [each for each in broker.requests if each["op"] != "cred-ls"] == []


def test_a_credential_file_is_named_by_its_absolute_path(
    broker: FakeDaemon, broker_d: Path, root: Path, hostctl: Hostctl
) -> None:
    secret = root / "token"
    secret.write_text("s3cret")
    done = hostctl("--json", "cred", "add", "corp", "--file", str(secret))
    assert json.loads(done.stdout)["type"] == "file"
    provider = tomllib.loads((broker_d / "provider-corp.toml").read_text())["provider"]["corp"]
    assert provider == {
        "type": "file",
        "username": "x-access-token",
        "password_file": str(secret),
    }


@pytest.mark.parametrize("name", ["missing", "."])
def test_an_unreadable_credential_file_is_one_clear_error(
    broker: FakeDaemon, broker_d: Path, root: Path, hostctl: Hostctl, name: str
) -> None:
    done = hostctl("cred", "add", "corp", "--file", str(root / name))
    assert done.returncode == 8
    assert done.stderr.splitlines()[0].endswith("cannot be read [U105]")
    assert list(broker_d.iterdir()) == []
    assert broker.requests == []


def listing(**item: object) -> dict[str, Message]:
    done: Message = {"ok": True}
    items = [{"name": "bot", "username": "u", **item}]
    return {
        "reload": done,
        "cred-add": done,
        "cred-rm": done,
        "cred-ls": {"ok": True, "items": items},
    }


def serving(root: Path, operations: dict[str, Message]) -> FakeDaemon:
    return FakeDaemon(root / "run" / "gitmoat" / "broker-admin.sock", operations)


def test_a_vault_entry_is_rotated_under_its_own_user_name(
    root: Path, broker_d: Path, hostctl: Hostctl
) -> None:
    with serving(root, listing(type="vault")) as daemon:
        done = hostctl("cred", "rotate", "bot", "--stdin", stdin="new-marker\n")
    assert done.returncode == 0, done.stderr
    assert "new-marker" not in done.stdout + done.stderr
    assert [one["op"] for one in daemon.requests] == ["cred-ls", "cred-add", "reload"]
    assert daemon.requests[1]["username"] == "u"


def test_a_file_is_rotated_in_one_step_with_owner_and_mode_as_they_were(
    root: Path, broker_d: Path, hostctl: Hostctl
) -> None:
    token, fresh = root / "token", root / "fresh"
    token.write_text("old\n")
    token.chmod(0o440)
    os.chown(token, 0, BROKER_GID)
    fresh.write_text("new-marker\n")
    before = token.stat()
    with serving(root, listing(type="file", file=str(token))):
        done = hostctl("cred", "rotate", "bot", "--file", str(fresh))
    assert done.returncode == 0, done.stderr
    after = token.stat()
    assert token.read_text() == "new-marker\n"
    assert (after.st_uid, after.st_gid, after.st_mode) == (0, BROKER_GID, before.st_mode)
    assert after.st_ino != before.st_ino
    assert not [one for one in root.iterdir() if one.name.startswith(".token")]


def test_a_helpers_credential_is_not_ours_to_rotate(
    root: Path, broker_d: Path, hostctl: Hostctl
) -> None:
    with serving(root, listing(type="git-credential", user="alice")) as daemon:
        done = hostctl("cred", "rotate", "bot", "--stdin", stdin="x\n")
    assert done.returncode == 2 and "log in again as alice" in done.stderr
    assert [one["op"] for one in daemon.requests] == ["cred-ls"]


def test_removing_a_credential_takes_its_file_and_its_vault_entry(
    root: Path, broker_d: Path, hostctl: Hostctl
) -> None:
    path = broker_d / "provider-bot.toml"
    path.write_text('[provider.bot]\ntype = "vault"\n')
    with serving(root, listing(type="vault")) as daemon:
        assert hostctl("cred", "rm", "bot").returncode == 0
        assert hostctl("cred", "rm", "other").returncode == 4
    assert not path.exists()
    assert [one["op"] for one in daemon.requests][:3] == ["cred-ls", "reload", "cred-rm"]


def test_a_credential_that_an_upstream_needs_is_not_removed(
    root: Path, broker_d: Path, hostctl: Hostctl
) -> None:
    path = broker_d / "provider-bot.toml"
    path.write_text('[provider.bot]\ntype = "vault"\n')
    with serving(root, listing(type="vault") | {"reload": REFUSAL}) as daemon:
        assert hostctl("cred", "rm", "bot").returncode == 8
    assert path.exists()
    assert "cred-rm" not in [one["op"] for one in daemon.requests]


def test_a_trial_shows_scope_end_and_warnings(root: Path, broker_d: Path, hostctl: Hostctl) -> None:
    said: Message = {"ok": True, "name": "bot", "upstream": "up", "repository": "acme/app",
                     "code": None, "what": "accepted", "scope": "repo", "expires": None,
                     "warnings": ["it is wide"]}  # fmt: skip
    with serving(root, {"cred-test": said}) as daemon:
        done = hostctl("cred", "test", "bot", "--repo", "up:acme/app")
    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        [
            "bot at up:acme/app: accepted",
            "scope:    repo",
            "expires:  not known",
            "warning:  it is wide",
        ],
    )
    assert daemon.requests == [{"op": "cred-test", "name": "bot", "repo": "up:acme/app"}]


def test_a_trial_takes_the_first_repository_that_a_policy_names(
    root: Path, broker_d: Path, hostctl: Hostctl
) -> None:
    policies = root / "etc" / "gitmoat" / "policies"
    policies.mkdir(exist_ok=True)
    rule = 'version = 1\nname = "a"\n[[git]]\nrepos = ["x:o/o", "up:a/*", "up:a/b"]\nfetch = true\n'
    (policies / "a.toml").write_text(rule)
    upstream = '[upstream.up]\nurl = "https://h.example"\nprovider = "bot"\n'
    (broker_d / "upstream-up.toml").write_text(upstream)
    said: Message = {"ok": True, "code": "U102", "what": "refused"}
    with serving(root, {"cred-test": said}) as daemon:
        assert hostctl("cred", "test", "bot").returncode == 1
        assert hostctl("cred", "test", "other").returncode == 2
    assert [one["repo"] for one in daemon.requests] == ["up:a/b"]

"""`policy init` and `init` at a terminal: what is asked, and what a wrong answer costs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from netpolicy.format.document import parse_policy
from tests.cli.terminal import Terminal
from tests.stage.owner import home_of, log_in
from tests.waiting import PATIENCE


@pytest.fixture
def policies(root: Path) -> Path:
    broker_d = root / "etc" / "gitmoat" / "broker.d"
    broker_d.mkdir(parents=True)
    (broker_d / "upstream-corp.toml").write_text(
        '[upstream.corp]\nurl = "https://git.example.com"\ncase_insensitive = false\n'
    )
    return root / "etc" / "gitmoat" / "policies"


@pytest.fixture
def terminal(root: Path, policies: Path) -> Iterator[Terminal]:
    made = Terminal(root, "policy", "init")
    yield made
    made.close()


def test_four_answers_make_a_policy(terminal: Terminal, policies: Path) -> None:
    terminal.read_until(b"name of the policy [agents]: ")
    terminal.type(b"\r")
    terminal.read_until(b"repositories, as UPSTREAM:PATH or URL (upstreams: corp)")
    terminal.type(b"https://git.example.com/acme/app.git corp:acme/web-*\r")
    terminal.read_until(b"branches it may push, or none, with spaces between [agent/**]: ")
    terminal.type(b"\r")
    terminal.read_until(b"may the command use git by itself? [no]: ")
    terminal.type(b"y\r")
    said = terminal.rest().decode()
    assert "next: hostctl run --policy agents --repo URL -- CMD" in said
    policy = parse_policy((policies / "agents.toml").read_text())
    (rule,) = policy.git
    assert [pattern.text for pattern in rule.repos] == ["corp:acme/app", "corp:acme/web-*"]
    assert terminal.process.returncode == 0


def test_a_wrong_answer_is_asked_again_with_the_reason(terminal: Terminal, policies: Path) -> None:
    policies.mkdir()
    (policies / "taken.toml").write_text("")
    wrong = [
        (b"name of the policy", b"no name", b"is invalid; at most 63 of"),
        (b"name of the policy", b"taken", b"taken.toml exists already; choose another name"),
        (b"name of the policy", b"bots", b"repositories, as"),
        (b"", b"", b"an answer is needed; Ctrl-C ends this"),
        (
            b"repositories, as",
            b"acme",
            b"'acme' is not a repository; write upstream:path, or a URL",
        ),
        (b"repositories, as", b"https://other.example/a/b", b"no upstream is configured for"),
        (b"repositories, as", b"corp:acme/../app", b"not a repository path"),
        (b"repositories, as", b"\xff\xfe", b"repositories, as"),
        (b": ", b"corp:acme/app", b"branches it may push"),
        (b"", b"agent/..", b"'agent/..' is not a branch: "),
        (b"branches it may push", b"none", b"by itself?"),
        (b"", b"perhaps", b"'perhaps' is neither yes nor no; write y or n"),
        (b"by itself?", b"no", b"wrote "),
    ]
    for asked, typed, answer in wrong:
        terminal.read_until(asked)
        terminal.type(typed + b"\r")
        terminal.read_until(answer)
    terminal.process.wait(PATIENCE)
    (rule,) = parse_policy((policies / "bots.toml").read_text()).git
    assert rule.push is None
    assert terminal.process.returncode == 0


@pytest.mark.parametrize("key", [b"\x03", b"\x04"], ids=["Ctrl-C", "Ctrl-D"])
def test_leaving_writes_nothing_and_ends_the_line(
    key: bytes, terminal: Terminal, policies: Path
) -> None:
    terminal.read_until(b"name of the policy [agents]: ")
    terminal.type(b"\r")
    terminal.read_until(b"with spaces between: ")
    terminal.type(key)
    assert b"\r\nended; nothing was written\r\n" in terminal.rest()
    assert terminal.process.returncode == 130
    assert not policies.exists()


def test_options_are_not_asked_for(root: Path, policies: Path) -> None:
    terminal = Terminal(root, "policy", "init", "bots", "--push", "bot/*", "--agent")
    terminal.read_until(b"repositories, as")
    terminal.type(b"corp:acme/app\r")
    said = terminal.rest()
    assert b"branches" not in said and b"by itself" not in said
    assert terminal.process.returncode == 0
    terminal.close()


def test_the_first_set_up_asks_which_server_until_it_is_one(root: Path) -> None:
    hosts = ("git.example.com", "git.corp.example")
    log_in(root, *hosts)
    (home_of(root) / ".gitconfig").write_text(
        "".join(f'[credential "https://{host}"]\n\thelper = store\n' for host in hosts)
    )
    terminal = Terminal(root, "init", "--user", "nobody")
    terminal.read_until(b"[git.example.com]: ")
    terminal.type(b"http://git.corp.example/x\r")
    terminal.read_until(b"is not a git server; write https://HOST")
    terminal.type(b"git.corp.example\r")
    terminal.read_until(b"write this, and start broker and hostd? [yes]: ")
    terminal.type(b"n\r")
    assert b"nothing was written [C105]" in terminal.rest()
    assert terminal.process.returncode == 2
    assert not (root / "etc/gitmoat").exists()
    terminal.close()

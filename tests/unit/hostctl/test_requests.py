"""What is sent for each operation, exactly."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path

import pytest

from gitmoat.paths import Paths
from hostctl.arguments import parse
from hostctl.commands.cred import provider_values, seal_request
from hostctl.commands.exec import exec_request
from hostctl.commands.git import git_request
from hostctl.commands.run import main, run_request
from hostctl.commands.session import revoke_request
from hostctl.commands.upstream import upstream_values
from hostctl.failure import Failure
from hostctl.output import Output


def args_of(*argv: str) -> Namespace:
    return parse(argv, "/")


def test_a_bare_run() -> None:
    args = args_of("run", "--", "true")
    assert run_request(args, args.command, None) == {
        "op": "run",
        "name": None,
        "runtime": None,
        "image": None,
        "policy": None,
        "repos": [],
        "policy_name": None,
        "push": [],
        "hosts": [],
        "agent": False,
        "ttl": None,
        "author": None,
        "argv": ["true"],
        "env": {},
        "detach": False,
        "tty": False,
        "rm": False,
        "workdir": None,
        "memory": None,
        "pids": None,
        "cpus": None,
    }


def test_a_run_with_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    words = "run --runtime bwrap --agent --repo https://h/a --repo https://h/b --push agent/** "
    words += "--allow-host h.example --allow-host i.example:8443 "
    words += "--name n --ttl 8h -e A=1 -e B=x=y --rm -it "
    words += "--workdir /srv/./x/../w:ro --memory 2g --pids 64 --cpus 1.5 -- sh -c true"
    head, *rest = words.split()
    args = args_of(head, "--author", "Ada <ada@mail.example>", *rest)
    assert run_request(args, args.command, {"version": 1}) == {
        "op": "run",
        "name": "n",
        "runtime": "bwrap",
        "image": None,
        "policy": {"version": 1},
        "repos": ["https://h/a", "https://h/b"],
        "policy_name": None,
        "push": ["agent/**"],
        "hosts": ["h.example", "i.example:8443"],
        "agent": True,
        "ttl": 28800,
        "author": "Ada <ada@mail.example>",
        "argv": ["sh", "-c", "true"],
        "env": {"TERM": "xterm-256color", "COLORTERM": "truecolor", "A": "1", "B": "x=y"},
        "detach": False,
        "tty": True,
        "rm": True,
        "workdir": {"path": "/srv/w", "read_only": True},
        "memory": 2 << 30,
        "pids": 64,
        "cpus": 1.5,
    }


@pytest.mark.parametrize(
    ("text", "path"), [("/w", "/w"), ("//w", "/w"), ("w", "HERE/w"), ("/w:ro:ro", "/w:ro")]
)
def test_a_work_directory_is_made_absolute_and_nothing_more(text: str, path: str) -> None:
    workdir = args_of("run", "--workdir", text, "--", "true").workdir
    assert workdir["path"] == os.path.normpath(path.replace("HERE", os.getcwd()))
    assert workdir["read_only"] is text.endswith(":ro")


@pytest.mark.parametrize(
    "words",
    [
        "run -d -i -- true",
        "run -d -t -- true",
        "run --push x -- true",
        "run --repo https://h/a --workdir /w -- true",
        "run --policy p --agent -- true",
        "run",
    ],
)
def test_combinations_that_make_no_sense_are_refused(words: str) -> None:
    with pytest.raises(Failure) as caught:
        main(args_of(*words.split()), Paths("/"), Output())
    assert caught.value.exit_code == 2


def test_exec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "vt100")
    monkeypatch.delenv("COLORTERM", raising=False)
    args = args_of("exec", "--as", "helper", "-t", "s", "--", "git", "config", "-l")
    assert exec_request(args, args.command) == {
        "op": "exec",
        "sandbox": "s",
        "as": "helper",
        "argv": ["git", "config", "-l"],
        "env": {"TERM": "vt100"},
        "tty": True,
    }


@pytest.mark.parametrize(
    "value", ["", "../x", "/dev/x", "a/b", "a b", "a\n", "\x1b[2J", "é", "-x", ".x", "x" * 65]
)
def test_what_is_no_terminals_name_is_not_passed_on(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", value)
    monkeypatch.setenv("COLORTERM", value)
    args = args_of("exec", "-t", "s", "--", "true")
    assert exec_request(args, args.command)["env"] == {}


def test_what_is_given_by_hand_wins_over_the_callers_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    args = args_of("run", "-t", "-e", "TERM=vt100", "--", "true")
    assert run_request(args, args.command, None)["env"]["TERM"] == "vt100"  # type: ignore[index]


def test_exec_is_untrusted_unless_told_otherwise() -> None:
    assert args_of("exec", "s", "--", "true").tier == "untrusted"


def test_git_takes_three_operations_only() -> None:
    wanted = {"op": "git", "sandbox": "s", "args": ["push", "origin", "x"]}
    assert git_request("s", ["push", "origin", "x"]) == wanted
    for words in (["clone", "u"], ["-c", "a=b", "push"], ["remote"], ["config"]):
        with pytest.raises(Failure):
            git_request("s", words)


def test_revoke_names_one_or_all() -> None:
    one = revoke_request(args_of("session", "revoke", "s", "--reason", "r"))
    assert one == {"op": "session-revoke", "session": "s", "reason": "r"}
    every = revoke_request(args_of("session", "revoke", "--all"))
    assert every == {"op": "session-revoke", "all": True, "reason": ""}
    for words in ([], ["s", "--all"]):
        with pytest.raises(Failure):
            revoke_request(args_of("session", "revoke", *words))


def test_a_secret_travels_as_base64() -> None:
    assert seal_request("n", "u", b"\xffs") == {
        "op": "cred-add",
        "name": "n",
        "username": "u",
        "secret_b64": "/3M=",
    }


@pytest.mark.parametrize(
    ("url", "option", "folds"),
    [
        ("https://github.com", [], True),
        ("https://github.com", ["--case-insensitive", "no"], False),
        ("https://git.corp.example", [], False),
        ("https://github.com.evil.example", [], False),
    ],
)
def test_case_is_stated_always_and_is_strict_where_unknown(
    url: str, option: list[str], folds: bool
) -> None:
    args = args_of("upstream", "add", "n", "--url", url, "--cred", "c", *option)
    assert upstream_values(args) == {"url": url, "case_insensitive": folds, "provider": "c"}


@pytest.mark.parametrize(
    ("url", "option", "suffix"),
    [
        ("https://gitlab.com", [], "add"),
        ("https://dev.azure.com", [], "remove"),
        ("https://git.sr.ht", [], "remove"),
        ("https://git.sr.ht", ["--git-suffix", "keep"], None),
        ("https://git.corp.example", ["--git-suffix", "add"], "add"),
        ("https://git.corp.example", [], None),
        ("https://gitlab.com.evil.example", [], None),
    ],
)
def test_a_server_that_knows_one_spelling_is_asked_for_that(
    url: str, option: list[str], suffix: str | None
) -> None:
    args = args_of("upstream", "add", "n", "--url", url, "--cred", "c", *option)
    assert upstream_values(args).get("git_suffix") == suffix


def test_an_upstream_behind_a_proxy_is_written_so() -> None:
    words = ("--url", "https://git.example", "--cred", "c", "--proxy", "http://proxy.example:3128")
    values = upstream_values(args_of("upstream", "add", "n", *words, "--proxy-cred", "door"))
    assert (values["proxy"], values["proxy_provider"]) == ("http://proxy.example:3128", "door")


def test_each_kind_of_credential_is_written_as_its_provider(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("x")
    cases: dict[tuple[str, ...], dict[str, object]] = {
        ("--stdin",): {"type": "vault"},
        ("--file", str(file)): {
            "type": "file",
            "username": "x-access-token",
            "password_file": str(file),
        },
        ("--command", "gh auth 'git-credential'"): {
            "type": "git-credential",
            "user": "alice",
            "command": ["gh", "auth", "git-credential"],
        },
        ("--github-app", "5", "--private-key", str(file), "--installation", "7"): {
            "type": "github-app",
            "app_id": 5,
            "installation_id": 7,
            "private_key_file": str(file),
        },
    }
    for words, values in cases.items():
        assert provider_values(args_of("cred", "add", "n", *words), "alice") == values


@pytest.mark.parametrize(
    ("words", "caller"),
    [
        (["--command", "gh"], None),
        (["--command", "gh"], "root"),
        (["--command", "gh", "--user", "root"], "alice"),
        (["--command", "gh '"], "alice"),
        (["--github-app", "5"], "alice"),
        (["--github-app", "5", "--installation", "7"], "alice"),
    ],
)
def test_a_credential_that_is_not_wholly_described_is_refused(
    words: list[str], caller: str | None
) -> None:
    with pytest.raises(Failure) as caught:
        provider_values(args_of("cred", "add", "n", *words), caller)
    assert caught.value.code == "C105"

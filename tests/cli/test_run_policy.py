"""`run --policy`: the file is read once, and its faults are told where they are the reason."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.command import PIP_CONF, Hostctl, put
from tests.fakes.daemon import Call, FakeDaemon, Message, Operation
from tests.waiting import PATIENCE

GOOD = 'version = 1\nname = "p"\n[[egress]]\nhosts = ["a.corp.example"]\n'
MISSPELT = GOOD.replace("hosts", "hsots")
PRESET = 'version = 1\nname = "p"\n[preset]\nuse = ["pip"]\n'
INVALID: Message = {"code": "P101", "what": "said by hostd", "why": "w", "fix": "f", "exit": 8}
NO_ROOM: Message = {"code": "R101", "what": "no room", "why": "w", "fix": "f", "exit": 1}
DONE: Message = {"ok": True, "exit": 0}


@pytest.fixture
def file(root: Path) -> Path:
    return put(root / "p.toml", GOOD)


def hostd(root: Path, run: Operation | Message) -> FakeDaemon:
    return FakeDaemon(root / "run" / "gitmoat" / "hostd.sock", {"run": run})


def after(change: Callable[[], object], answer: Message) -> Operation:
    """Something happens to the file while hostd is asked."""

    def operation(call: Call) -> list[Message]:
        change()
        return [answer]

    return operation


# Read once


@pytest.mark.parametrize("text", [GOOD, PRESET, PRESET.replace("[preset]", '["pr\\u0065set"]')])
def test_a_policy_may_come_from_a_pipe(root: Path, hostctl: Hostctl, text: str) -> None:
    put(root / "etc/pip.conf", PIP_CONF.replace("pip.corp", "a.corp"))
    with hostd(root, DONE) as daemon:
        done = hostctl("run", "--policy", "/dev/stdin", "--", "true", stdin=text)
    assert (done.stderr, done.returncode) == ("", 0)
    assert "a.corp.example" in str(daemon.requests[0]["policy"])


def test_a_named_pipe_is_not_waited_for_again(root: Path, hostctl: Hostctl) -> None:
    put(root / "etc/pip.conf", PIP_CONF)
    pipe = root / "p.toml"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(PRESET,), daemon=True)
    writer.start()
    with hostd(root, {"error": NO_ROOM}):
        done = hostctl("run", "--policy", str(pipe), "--", "true")
    assert "error: no room [R101]\n" in done.stderr
    writer.join(PATIENCE)


def test_a_fault_in_a_pipe_is_told_without_a_hostd(hostctl: Hostctl) -> None:
    done = hostctl("run", "--policy", "/dev/stdin", "--", "true", stdin=MISSPELT)
    assert done.returncode == 125
    assert done.stderr.startswith("error: the policy /dev/stdin is invalid [P101]\n")
    assert "egress[0].hsots: unknown key\n" in done.stderr


# Whose fault it is


def test_what_hostd_was_sent_is_judged_not_what_became_of_the_file(
    root: Path, file: Path, hostctl: Hostctl
) -> None:
    file.write_text(MISSPELT)
    with hostd(root, after(file.unlink, {"error": INVALID})):
        done = hostctl("run", "--policy", str(file), "--", "true")
    assert done.returncode == 125
    assert done.stderr.startswith(f"error: the policy {file} is invalid [P101]\n")


def test_a_failure_of_the_run_is_not_the_policys(root: Path, file: Path, hostctl: Hostctl) -> None:
    with hostd(root, after(lambda: file.write_text(MISSPELT), {"error": NO_ROOM})):
        done = hostctl("run", "--policy", str(file), "--", "true")
    assert done.returncode == 125
    assert done.stderr.startswith("error: no room [R101]\n")


def test_a_hostd_that_goes_away_is_what_is_told(root: Path, file: Path, hostctl: Hostctl) -> None:
    file.write_text(MISSPELT)
    with hostd(root, lambda call: []):
        done = hostctl("run", "--policy", str(file), "--", "true")
    assert done.returncode == 125
    assert done.stderr.startswith("error: hostd closed the connection before it answered [C103]\n")


def test_a_policy_without_a_fault_of_its_own_leaves_hostds_words(
    root: Path, file: Path, hostctl: Hostctl
) -> None:
    with hostd(root, {"error": INVALID}):
        done = hostctl("run", "--policy", str(file), "--push", "a..b", "--", "true")
    assert done.returncode == 125
    assert done.stderr == "error: said by hostd [P101]\nwhy: w\nfix: f\n"


@pytest.mark.parametrize("broken", ["not TOML [", '[upstream.x]\nurl = "https://["\n'])
def test_a_check_that_fails_itself_leaves_hostds_words(
    root: Path, file: Path, hostctl: Hostctl, broken: str
) -> None:
    put(root / "etc/gitmoat/broker.toml", broken)
    with hostd(root, {"error": INVALID}):
        done = hostctl("run", "--policy", str(file), "--", "true")
    assert done.stderr.startswith("error: said by hostd [P101]\n")
    done = hostctl("run", "--policy", str(file), "--", "true")
    assert done.stderr.startswith("error: hostd is not running [C103]\n")


@pytest.mark.parametrize("words", [(), ("-d",)])
def test_without_a_hostd_the_policys_fault_is_told_first(
    file: Path, hostctl: Hostctl, words: tuple[str, ...]
) -> None:
    words = ("run", *words, "--policy", str(file), "--", "true")
    assert "[C103]" in hostctl(*words).stderr
    file.write_text(MISSPELT)
    assert "[P101]" in hostctl(*words).stderr


# What is sent


def test_a_policy_beyond_any_use_is_refused_in_the_words_of_its_file(
    root: Path, file: Path, hostctl: Hostctl
) -> None:
    file.write_text(f"{GOOD}# {'x' * 2_000_000}\n")
    with hostd(root, DONE) as daemon:
        done = hostctl("run", "--policy", str(file), "--", "true")
    assert (done.returncode, daemon.requests) == (125, [])
    assert "is invalid [P101]\nwhy: longer than 262144 characters\n" in done.stderr


def test_a_command_that_is_too_long_for_a_request_is_an_error_of_ours(
    root: Path, hostctl: Hostctl
) -> None:
    with hostd(root, DONE) as daemon:
        done = hostctl("run", "--", "true", *(["x" * 100_000] * 11))
    assert (done.returncode, daemon.requests) == (2, [])
    assert done.stderr.startswith("error: the request is too long for hostd [C105]\n")

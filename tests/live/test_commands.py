"""Commands in a sandbox: their bytes, exit codes and signals, and what is left afterwards."""

from __future__ import annotations

import os
import pty
import signal
import subprocess

import pytest

from hostctl.setup.daemons import clean_environment
from tests.live.inventory import Inventory, at_rest, differences, inventory
from tests.stage.boxes import Box, alive
from tests.stage.command import Ran, command, outcome
from tests.stage.gitmoat import Gitmoat
from tests.stage.kernel_view import namespace, processes_in
from tests.stage.play import LARGE
from tests.stage.repositories import ALLOWED
from tests.waiting import PATIENCE, ends_with_its_test, eventually

TRAPPING = "trap 'echo caught; exit 9' {}; echo up; while :; do sleep 0.05; done"


@pytest.mark.parametrize("code", [0, 1, 7, 255])
def test_an_exit_code_is_passed_on(agent: Box, stage: Gitmoat, code: int) -> None:
    assert agent.sh(f"exit {code}").code == code
    assert stage.hostctl("run", "--rm", "--", "sh", "-c", f"exit {code}").code == code


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_command_that_a_signal_ended_gives_128_and_its_number(agent: Box, number: int) -> None:
    assert agent.sh(f"kill -{int(number)} $$").code == 128 + number


def test_a_program_that_is_not_there_is_127_and_one_that_cannot_run_126(
    agent: Box, stage: Gitmoat
) -> None:
    before = stage.hostctl("ls", "-q").out
    missing = "error: the sandbox has no program 'no-such-program' [R107]"
    for start in (("exec", agent.name), ("run", "--rm"), ("run",)):
        ran = stage.hostctl(*start, "--", "no-such-program")
        assert (ran.code, ran.err.splitlines()[0]) == (127, missing)
    assert stage.hostctl("exec", agent.name, "--", "/etc/passwd").code == 126
    assert stage.hostctl("ls", "-q").out == before


def test_an_unknown_sandbox_is_told_whatever_was_asked(stage: Gitmoat) -> None:
    for words in (
        ["exec", "nobody", "--", "true"],
        ["git", "nobody", "--", "fetch"],
        ["inspect", "nobody"],
        ["rm", "nobody"],
        ["session", "revoke", "nobody"],
        ["inspect", "--fleet", "nobody"],
    ):
        ran = stage.hostctl(*words)
        assert ran.code == (125 if words[0] == "exec" else 4), (words, ran.err)
        assert len(ran.err.splitlines()) == 3


def test_output_and_errors_stay_apart_and_arrive_whole(agent: Box) -> None:
    ran = agent.sh(
        "head -c 3000000 /dev/zero | tr '\\0' o; head -c 1000000 /dev/zero | tr '\\0' e >&2"
    )
    assert (ran.out.count("o"), len(ran.out)) == (3_000_000, 3_000_000)
    assert (ran.err.count("e"), len(ran.err)) == (1_000_000, 1_000_000)


def test_stdin_reaches_the_command_with_i_and_is_empty_without(agent: Box, stage: Gitmoat) -> None:
    text = "a line\n" * 100_000
    count = ("wc", "-c")
    assert stage.hostctl("exec", "-i", agent.name, "--", *count, stdin=text).out == "700000\n"
    assert stage.hostctl("exec", agent.name, "--", *count, stdin=text).out == "0\n"


def test_the_terminal_of_a_command_is_not_ours(agent: Box, stage: Gitmoat) -> None:
    master, slave = pty.openpty()
    hostctl = command(stage.root)
    script = "readlink /proc/self/fd/0; test -t 0 && test -t 1 && test -t 2 && echo three"
    process = subprocess.Popen(
        [*hostctl, "exec", "-it", agent.name, "--", "sh", "-c", script],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=clean_environment(),
        start_new_session=True,
    )
    assert ends_with_its_test(process).wait(PATIENCE) == 0
    shown = os.read(master, 4096).decode().split()
    ours = os.ttyname(slave)
    os.close(master)
    os.close(slave)
    assert shown[1] == "three"
    assert shown[0] != ours


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_reaches_the_command(agent: Box, number: signal.Signals) -> None:
    process = agent.begin("sh", "-c", TRAPPING.format(number.name[3:]))
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    process.send_signal(number)
    ran = outcome(process)
    assert (ran.out, ran.code) == ("caught\n", 9)


def test_an_interrupt_ends_a_command_that_does_not_expect_it(agent: Box) -> None:
    process = agent.begin("sh", "-c", "echo up; exec sleep 600")
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert outcome(process).code == 130


def test_a_command_ends_when_its_client_is_killed(agent: Box) -> None:
    inside = {agent.inspect()["netns"]}
    before = processes_in(inside)
    process = agent.begin("sh", "-c", "echo up; sleep 600")
    assert process.stdout is not None
    process.stdout.readline()
    (started, *_) = processes_in(inside) - before
    process.kill()
    outcome(process)
    eventually(lambda: not alive(started), "the command to end")


def test_the_working_directory_and_environment_are_what_was_asked(
    agent: Box, stage: Gitmoat
) -> None:
    words = (
        "run",
        "--rm",
        "-e",
        "A=1 2",
        "-e",
        "B=",
        "--",
        "sh",
        "-c",
        'echo "$A|${B-unset}|$PWD"',
    )
    assert stage.hostctl(*words).out == "1 2||/workspace\n"


def test_nothing_of_hostctls_own_environment_gets_in(agent: Box) -> None:
    shown = agent.run("env").expect_success("env")
    assert "PYTHON" not in shown and str(agent.stage.root) not in shown


def test_run_rm_leaves_nothing(stage: Gitmoat) -> None:
    before = at_rest(stage)
    script = "git log -1 && sleep 100 & sleep 100 & mkdir -m 0 /tmp/x $HOME/x && exit 3"
    ran = stage.hostctl("run", "--rm", "--repo", stage.url(ALLOWED), "--", "sh", "-c", script)
    assert ran.code == 3
    _same_soon(stage, before)


def test_a_detached_sandbox_goes_when_its_command_ends(stage: Gitmoat) -> None:
    before = at_rest(stage)
    ran = stage.hostctl("run", "-d", "--rm", "--", "true")
    assert ran.code == 0
    _same_soon(stage, before)


def test_rm_takes_a_running_sandbox_only_by_force_and_then_wholly(stage: Gitmoat) -> None:
    before = at_rest(stage)
    words = ("run", "-d", "--name", "t-rm", "--agent", "--repo", stage.url(ALLOWED))
    stage.hostctl(*words, "--", "sleep", "infinity").expect_success("run")
    box = Box(stage, "t-rm")
    inside = processes_in({box.inspect()["netns"]})
    assert len(inside) > 3
    refused = stage.hostctl("rm", "t-rm")
    assert (refused.code, "[R108]" in refused.err) == (1, True)
    stage.hostctl("rm", "--force", "t-rm").expect_success("rm")
    assert [pid for pid in inside if alive(pid)] == []
    _same_soon(stage, before)


def test_a_start_that_fails_leaves_nothing(stage: Gitmoat) -> None:
    before = at_rest(stage)
    assert stage.hostctl("run", "--repo", stage.url("acme/nothing"), "--", "true").code == 125
    assert stage.hostctl("run", "--", "no-such-program").code == 127
    _same_soon(stage, before)


def test_an_interrupted_start_leaves_nothing(stage: Gitmoat, large: str) -> None:
    """hostctl is killed while the gate still clones."""
    before = at_rest(stage)
    words = ("run", "--rm", "--repo", stage.url(LARGE), "--", "sleep", "infinity")
    process = stage.begin(*words)
    assert process.stderr is not None
    assert process.stderr.readline().startswith(b"cloning ")
    process.kill()
    outcome(process)
    _same_soon(stage, before)


def test_a_name_is_taken_once(agent: Box, stage: Gitmoat) -> None:
    before = stage.hostctl("ls", "-q").out
    ran = stage.hostctl("run", "--name", agent.name, "--", "true")
    assert ran.code == 125
    assert "[R104]" in ran.err
    assert stage.hostctl("ls", "-q").out == before


def test_two_sandboxes_start_at_the_same_time(stage: Gitmoat) -> None:
    words = ("run", "--rm", "--", "sh", "-c", "id -u; readlink /proc/self/ns/net")
    processes = [stage.begin(*words) for _ in range(3)]
    seen: list[Ran] = [outcome(process) for process in processes]
    assert [ran.code for ran in seen] == [0, 0, 0], seen
    assert len({ran.out for ran in seen}) == 3
    assert str(namespace("self", "net")) not in "".join(ran.out for ran in seen)


def _same_soon(stage: Gitmoat, before: Inventory) -> None:
    eventually(lambda: not differences(before, inventory(stage)), "what was there before")

"""`hostctl restart` keeps sandboxes running; `hostctl down` ends none without a word."""

from __future__ import annotations

from tests.cli.terminal import Terminal
from tests.stage.boxes import Box, start_box
from tests.stage.gitmoat import Gitmoat
from tests.stage.repositories import ALLOWED

QUESTION = b"this ends every process in 1 running sandbox ("


def pids(stage: Gitmoat) -> list[str]:
    lines = stage.hostctl("status").expect_success("status").splitlines()
    return [line.split("pid ")[1].split()[0] for line in lines]


def commands(box: Box) -> list[str]:
    """The pids, inside, of what `run -d` started and of the pause."""
    script = "for p in /proc/[0-9]*; do grep -azq '^sleep$' $p/cmdline && echo $p; done"
    return box.sh(script).out.split()


def test_a_restart_takes_the_configuration_and_the_sandboxes_go_on(fresh_stage: Gitmoat) -> None:
    stage = fresh_stage
    box = start_box(stage, "--agent")
    inside, before, running = box.inspect()["pid"], pids(stage), commands(box)
    with stage.paths.hostd_toml.open("a", encoding="utf-8") as file:
        file.write('[watchdog]\ninterval = "20s"\n')
    assert "not taken" in stage.hostctl("reload").out
    said = stage.hostctl("restart").expect_success("restart")
    assert said.startswith("gitmoat was restarted: broker pid ")
    assert not set(pids(stage)) & set(before)
    assert "not taken" not in stage.hostctl("reload").out
    assert box.inspect()["pid"] == inside
    assert commands(box) == running
    assert box.run("git", "-C", "/workspace", "fetch", "-q").code == 0
    assert box.git("fetch").code == 0


def test_down_without_a_terminal_ends_nothing_while_a_sandbox_runs(fresh_stage: Gitmoat) -> None:
    stage = fresh_stage
    box = start_box(stage, "--agent")
    ran = stage.hostctl("down")
    error, _, fix = ran.err.splitlines()
    assert (ran.code, ran.out) == (1, "")
    assert error == f"error: nothing was stopped: {QUESTION.decode()}{box.name}) [R108]"
    assert "hostctl down --force" in fix and "hostctl restart" in fix
    assert box.run("true").code == 0
    assert stage.hostctl("down", "--force").out == "gitmoat is down\n"


def test_down_at_a_terminal_asks_and_does_what_is_answered(fresh_stage: Gitmoat) -> None:
    stage = fresh_stage
    box = start_box(stage, "--agent")
    for answer, code in ((b"\n", 1), (b"yes\n", 0)):
        terminal = Terminal(stage.root, "down")
        terminal.read_until(QUESTION + box.name.encode() + b"); go on? [no]: ")
        assert box.run("true").code == 0, "it has not begun"
        terminal.type(answer)
        terminal.rest()
        assert terminal.process.returncode == code
        terminal.close()
    assert stage.hostctl("ls").code == 5
    stage.hostctl("up").expect_success("up")
    stage.hostctl("start", box.name).expect_success("start")
    assert box.run("git", "-C", "/workspace", "log", "-1").code == 0, f"{ALLOWED} is still there"
    stage.hostctl("stop", box.name).expect_success("stop")
    assert stage.hostctl("down").out == "gitmoat is down\n", "nothing runs, nothing is asked"

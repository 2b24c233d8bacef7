"""Revoked means over: at once, for what runs too, and whatever dies or restarts afterwards."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

from tests.live.held import begin_clone, begin_push, broke_off, hold
from tests.stage.boxes import HOME, Box, Clone, MakeBox, told
from tests.stage.command import outcome
from tests.stage.gitmoat import Gitmoat
from tests.stage.kernel_view import descriptors, inet_sockets
from tests.stage.repositories import ALLOWED, make_empty, objects, reaching_upstream, refs
from tests.waiting import eventually

OVER = ["remote: gitmoat: this session has ended (S101)", "remote: request id: ID"]


def revoke(box: Box, reason: str = "a test") -> None:
    ran = box.stage.hostctl("session", "revoke", box.name, "--reason", reason)
    assert (ran.code, ran.out) == (0, f"revoked {box.name}\n")


def states(box: Box) -> list[str]:
    listed = json.loads(box.stage.hostctl("--json", "ls", "--fleet").expect_success("ls"))
    return [one["state"] for one in listed["items"] if one["name"] == box.name]


def test_a_revoked_command_is_refused_with_the_reason(make_box: MakeBox, stage: Gitmoat) -> None:
    box = make_box("--agent", "--push", "agent/**")
    url = stage.url(ALLOWED)
    box.run("git", "fetch", "-q").expect_success("git fetch")
    revoke(box)
    with reaching_upstream(stage) as requests:
        for words in (["fetch"], ["ls-remote", url], ["push", "origin", "HEAD:agent/x"]):
            ran = box.run("git", *words)
            assert ran.code == 128
            assert told(ran, stage)[:2] == OVER
    assert requests == []
    assert "active" not in states(box)


def test_a_revoked_gate_is_refused_with_the_reason(make_box: MakeBox, stage: Gitmoat) -> None:
    box = make_box("--push", "ci/**")
    revoke(box)
    with reaching_upstream(stage) as requests:
        for words in (["fetch"], ["ls-remote"], ["push", "origin", "HEAD:ci/x"]):
            ran = box.git(*words)
            assert ran.code != 0
            assert told(ran, stage)[:2] == OVER, words
    assert requests == []


def test_the_rest_of_a_revoked_sandbox_goes_on(make_box: MakeBox) -> None:
    box = make_box("--agent")
    revoke(box)
    assert box.sh("git log --oneline | wc -l").out.strip() != "0"
    assert box.inspect()["state"] == "running"
    again = box.stage.hostctl("session", "revoke", box.name)
    assert again.code == 4


def test_other_sandboxes_go_on(make_box: MakeBox, agent: Box, stage: Gitmoat) -> None:
    revoke(make_box("--agent"))
    agent.run("git", "ls-remote", stage.url(ALLOWED)).expect_success("ls-remote")


def test_a_clone_that_runs_is_cut(make_box: MakeBox, large: str) -> None:
    box = make_box("--policy", "play", repo=None)
    clone = hold(box, lambda: begin_clone(box, "cut"))
    revoke(box)
    broke_off(outcome(clone.go_on()))


def upstream_links(stage: Gitmoat) -> set[int]:
    """The local ports of the broker's connections to the upstream."""
    pid = json.loads(stage.hostctl("--json", "status").out)["broker"]["pid"]
    port = stage.upstream.port
    owned = {
        int(link.removeprefix("socket:[").removesuffix("]"))
        for link in descriptors(pid).values()
        if link.startswith("socket:[")
    }
    found = inet_sockets()
    return {
        one.local[1] for inode, one in found.items() if inode in owned and one.remote[1] == port
    }


def test_a_revoked_clone_leaves_no_connection_to_the_upstream_and_its_reason_in_the_audit(
    make_box: MakeBox, stage: Gitmoat, large: str
) -> None:
    box = make_box("--policy", "play", repo=None)
    before = upstream_links(stage)
    clone = hold(box, lambda: begin_clone(box, "audited"))
    begun = upstream_links(stage) - before
    assert begun
    revoke(box, "seen where it should not be")
    broke_off(outcome(clone.go_on()))
    eventually(lambda: not begun & upstream_links(stage), "the upstream's connection to be closed")
    ran = stage.hostctl("--json", "audit", "query", "--sandbox", box.inspect()["sandbox"])
    events = [json.loads(line) for line in ran.expect_success("audit query").splitlines()]
    (revoked,) = [one for one in events if one["event"] == "session.revoked"]
    assert revoked["reason"] == "seen where it should not be"
    cut = [one for one in events if one["event"] == "git.outcome" and one.get("code") == "S101"]
    assert len(cut) == 1 and cut[0]["bytes_down"] > 0


def test_a_push_that_runs_is_cut_and_nothing_of_it_is_applied(
    make_box: MakeBox, stage: Gitmoat
) -> None:
    make_empty(stage, "play/cut")
    box = make_box("--policy", "play", repo=None)
    script = (
        "git init -q -b main $HOME/r && cd $HOME/r && git config core.compression 0 &&"
        " git config core.bigFileThreshold 1k && head -c 40000000 /dev/urandom | split -b 1000000"
        " && git add . && git commit -q -m Large"
    )
    box.sh(script).expect_success("git commit")
    push = hold(box, lambda: begin_push(Clone(box, f"{HOME}/r"), "play/cut"))
    revoke(box)
    ran = outcome(push.go_on())
    assert ran.code == 1
    assert "! [remote rejected] HEAD -> main (this session has ended (S101)" in ran.err, ran.err
    assert "Everything up-to-date" not in ran.err
    assert (refs(stage, "play/cut"), objects(stage, "play/cut")) == ({}, set())


@pytest.mark.parametrize("order", ["revoked, then killed", "killed, then revoked"])
def test_a_killed_sidecar_does_not_bring_a_revoked_session_back(
    make_box: MakeBox, stage: Gitmoat, order: str
) -> None:
    box = make_box("--agent")
    url = stage.url(ALLOWED)
    box.run("git", "ls-remote", url).expect_success("ls-remote")
    sidecar = box.sidecar
    if order.startswith("killed"):
        os.kill(sidecar, signal.SIGKILL)
        box.run("git", "ls-remote", url).expect_success("ls-remote after the kill")
        revoke(box)
        sidecar = box.sidecar
    else:
        revoke(box)
    os.kill(sidecar, signal.SIGKILL)
    with reaching_upstream(stage) as requests:
        end = time.monotonic() + 3
        while time.monotonic() < end:
            assert box.sh('timeout 5 git ls-remote "$1"', url).code != 0
            assert "active" not in states(box)
            time.sleep(0.3)
    assert requests == []
    said = box.sh('timeout 150 git ls-remote "$1"', url)
    assert "S101" in said.err, said.err


def test_the_audit_names_the_revocation_and_its_reason(make_box: MakeBox, stage: Gitmoat) -> None:
    box = make_box("--agent")
    revoke(box, "left the team")
    ran = stage.hostctl("--json", "audit", "query", "--sandbox", box.inspect()["sandbox"])
    events = [json.loads(line) for line in ran.expect_success("audit query").splitlines()]
    (event,) = [one for one in events if one["event"] == "session.revoked"]
    assert "left the team" in json.dumps(event)
    stage.hostctl("audit", "verify").expect_success("audit verify")


def test_a_session_ends_by_its_ttl(make_box: MakeBox, stage: Gitmoat) -> None:
    box = make_box("--policy", "play", "--ttl", "12s", repo=None)
    url = stage.url("play/one")

    def over() -> bool:
        return "S101" in box.run("git", "ls-remote", url).err

    eventually(over, "the session to end")
    with reaching_upstream(stage) as requests:
        assert over()
    assert requests == []

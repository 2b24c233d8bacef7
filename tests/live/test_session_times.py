"""A session's hard end, moved by its owner and by nobody else."""

from __future__ import annotations

import json
import os
import signal

from tests.stage.boxes import MakeBox
from tests.stage.gitmoat import Gitmoat
from tests.stage.repositories import ALLOWED
from tests.waiting import eventually


def test_a_session_is_renewed_within_its_policy_and_a_new_sidecar_keeps_it(
    make_box: MakeBox, stage: Gitmoat
) -> None:
    box = make_box("--agent", "--ttl", "10m")
    before = box.inspect()["session"]["expires"]
    moved = stage.hostctl("session", "renew", box.name, "--ttl", "2h")
    assert moved.code == 0 and moved.out.startswith(f"{box.name} now ends in 1h59m"), moved
    assert box.inspect()["session"]["expires"] > before + 5000
    too_far = stage.hostctl("session", "renew", box.name, "--ttl", "25h")
    assert too_far.code != 0 and "S105" in too_far.err and "max_ttl" in too_far.err
    old = box.sidecar
    os.kill(old, signal.SIGKILL)
    eventually(lambda: box.inspect()["sidecar"]["pid"] not in (None, old), "another sidecar")
    box.run("git", "ls-remote", stage.url(ALLOWED)).expect_success("ls-remote")
    shown = stage.hostctl("--json", "inspect", "--fleet", box.name).expect_success("inspect")
    assert json.loads(shown)["expires"] > before + 5000
    assert stage.hostctl("session", "renew", "nobody", "--ttl", "1h").code == 4
    assert stage.hostctl("session", "renew", box.name, "--ttl", "soon").code == 2
    old_verb = stage.hostctl("session", "extend", box.name, "--ttl", "2h")
    assert old_verb.code == 2 and "hostctl session renew S" in old_verb.err


def test_a_session_that_has_ended_is_renewed_and_its_work_is_pushed(
    make_box: MakeBox, stage: Gitmoat
) -> None:
    box = make_box("--agent", "--push", "agent/**", "--ttl", "20s")
    commit = "git checkout -qb agent/late && git commit -q --allow-empty -m late"
    box.run("sh", "-c", commit).expect_success("commit")
    push = ("git", "push", "-q", "origin", "agent/late")
    eventually(lambda: "S101" in box.run(*push).err, "the end of the session")
    listed = stage.hostctl("ls")
    assert "ended: expired" in listed.out, listed
    assert f"hostctl session renew {box.name}" in listed.err
    gate = stage.hostctl("git", box.name, "--", "push", "origin", "agent/late")
    assert gate.code != 0 and "S101" in gate.err
    before = box.inspect()["session"]["id"]
    renewed = stage.hostctl("session", "renew", box.name, "--ttl", "1h")
    assert renewed.code == 0 and renewed.out.startswith(f"{box.name} has git again"), renewed
    assert box.inspect()["session"]["id"] != before
    box.run(*push).expect_success("push")
    assert "ends in 59m" in stage.hostctl("ls").out
    stage.hostctl("session", "revoke", box.name).expect_success("revoke")
    final = stage.hostctl("session", "renew", box.name)
    assert final.code != 0 and "revoked" in final.err

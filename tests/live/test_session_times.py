"""A session's hard end, moved by its owner and by nobody else."""

from __future__ import annotations

import json
import os
import signal

from tests.stage.boxes import MakeBox
from tests.stage.gitmoat import Gitmoat
from tests.stage.repositories import ALLOWED
from tests.waiting import eventually


def test_a_session_is_extended_within_its_policy_and_a_new_sidecar_keeps_it(
    make_box: MakeBox, stage: Gitmoat
) -> None:
    box = make_box("--agent", "--ttl", "10m")
    before = box.inspect()["session"]["expires"]
    moved = stage.hostctl("session", "extend", box.name, "--ttl", "2h")
    assert moved.code == 0 and moved.out.startswith(f"{box.name} now ends in 1h59m"), moved
    assert box.inspect()["session"]["expires"] > before + 5000
    too_far = stage.hostctl("session", "extend", box.name, "--ttl", "25h")
    assert too_far.code != 0 and "S105" in too_far.err and "max_ttl" in too_far.err
    old = box.sidecar
    os.kill(old, signal.SIGKILL)
    eventually(lambda: box.inspect()["sidecar"]["pid"] not in (None, old), "another sidecar")
    box.run("git", "ls-remote", stage.url(ALLOWED)).expect_success("ls-remote")
    shown = stage.hostctl("--json", "inspect", "--fleet", box.name).expect_success("inspect")
    assert json.loads(shown)["expires"] > before + 5000
    assert stage.hostctl("session", "extend", "nobody", "--ttl", "1h").code == 4
    assert stage.hostctl("session", "extend", box.name, "--ttl", "soon").code == 2

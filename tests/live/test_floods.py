"""A sandbox that floods its sidecar: the git gate works on, nothing grows, the owner can see it."""

from __future__ import annotations

import json
from pathlib import Path

from bench.flooding import FLOOD
from tests.stage.boxes import Box, MakeBox
from tests.stage.command import outcome
from tests.stage.gitmoat import Gitmoat
from tests.waiting import eventually

HOLD = 500  # in each of two processes


def resident(pid: int) -> int:
    """Kilobytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def row(stage: Gitmoat, box: Box) -> dict[str, object]:
    told = json.loads(stage.hostctl("--json", "ls", "--watch", "--once").expect_success("ls"))
    assert told["schema"] == "gitmoat.top/1"
    (found,) = [each for each in told["items"] if each["name"] == box.name]
    return dict(found)


def test_the_gate_fetches_while_the_command_floods_and_the_owner_sees_who_it_is(
    make_box: MakeBox, stage: Gitmoat
) -> None:
    """Threat model 88 and 103: a thousand half-open connections, CONNECTs, refused requests,
    credential requests and questions for names, over and over."""
    box = make_box()
    sidecar = box.sidecar
    box.git("ls-remote", "origin").expect_success("ls-remote before")
    before = resident(sidecar)
    flood = box.begin("/usr/bin/python3", "-I", "-c", FLOOD, str(HOLD), "100000")
    assert flood.stdout is not None
    assert flood.stdout.readline() == b"ready\n"
    for _ in range(3):
        box.git("ls-remote", "origin").expect_success("ls-remote")
        box.git("fetch", "origin").expect_success("fetch")
    assert flood.poll() is None, "it was there all the time"
    eventually(lambda: int(str(row(stage, box)["denied"])) > 100, "the refusals are counted")
    eventually(lambda: row(stage, box)["slowed"] is True, "it is slowed")
    assert resident(sidecar) - before < 12_000
    assert box.sidecar == sidecar
    words = ("--json", "audit", "query", "--sandbox", box.name, "--denied", "--code", "H101")
    told = [json.loads(line) for line in stage.hostctl(*words).out.splitlines()]
    assert 1 <= len(told) < 200
    assert sum(each.get("count", 1) for each in told) > len(told)
    # Ending it is not held up either.
    box.remove()
    outcome(flood)


def test_the_journals_fit_their_schema_and_verify(stage: Gitmoat, tmp_path: Path) -> None:
    """Whatever the tests of this run did so far."""
    from jsonschema import Draft202012Validator

    stage.hostctl("audit", "export", str(tmp_path / "copy")).expect_success("export")
    schema = json.loads((tmp_path / "copy" / "audit.schema.json").read_text(encoding="ascii"))
    validator = Draft202012Validator(schema)
    lines = stage.hostctl("--json", "audit", "query").expect_success("query").splitlines()
    assert len(lines) > 3
    for line in lines:
        validator.validate(json.loads(line))
    stage.hostctl("audit", "verify").expect_success("verify")


def test_health_is_told_to_scripts(stage: Gitmoat) -> None:
    told = json.loads(stage.hostctl("--json", "status").expect_success("status"))
    assert (told["broker"]["healthy"], told["hostd"]["healthy"]) == (True, True)
    assert told["broker"]["problems"] == told["hostd"]["problems"] == []

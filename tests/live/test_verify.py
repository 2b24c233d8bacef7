"""`hostctl verify`, from the user's side: all is measured, and what is wrong is said."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.stage.boxes import Box, MakeBox, alive
from tests.stage.command import Ran
from tests.stage.gitmoat import Gitmoat
from tests.waiting import PATIENCE, eventually

# A token in shape only.
TOKEN = "ghp_" + "x" * 36


def verify(box: Box, *words: str) -> Ran:
    return box.stage.hostctl("verify", box.name, *words, timeout=PATIENCE)


def report(box: Box, *words: str) -> dict[str, Any]:
    ran = verify(box, "--json", *words)
    found: dict[str, Any] = json.loads(ran.out)
    assert ran.code == (0 if found["enforced"] == found["total"] else 6)
    return found


@pytest.fixture(scope="module", params=["agent", "split"])
def box(request: pytest.FixtureRequest) -> Box:
    found: Box = request.getfixturevalue(request.param)
    return found


def test_every_control_of_a_sandbox_is_enforced(box: Box) -> None:
    found = report(box)
    assert [row for row in found["probes"] if not row["ok"]] == []
    assert found["schema"] == "gitmoat.verify/1"
    assert found["total"] == len(found["probes"]) > 120
    uids = box.inspect()["uids"]
    for tier in ("untrusted", "helper", "sidecar"):
        assert {row["uid"] for row in found["probes"] if row["as"] == tier} == {uids[tier]}
    assert {row["expect"] for row in found["probes"]} == {"allow", "deny"}


def test_the_facts_are_those_of_the_sandbox(agent: Box) -> None:
    facts, about = report(agent, "--only", "network")["facts"], agent.inspect()
    assert facts["policy"] == about["policy"]
    assert facts["netns"] == about["netns"]
    assert facts["session"] == about["session"]["id"]
    assert len(facts["rules_sha256"]) == 64
    assert {"kernel", "version", "image", "host", "time"} <= set(facts)


def slowed(box: Box) -> bool:
    top = json.loads(box.stage.hostctl("--json", "ls", "--watch", "--once").out)
    return bool({each["name"]: each for each in top["items"]}[box.name]["slowed"])


def test_its_refusals_slow_nobody_down_and_a_sandboxs_own_do(make_box: MakeBox) -> None:
    box = make_box("--agent")
    url = box.stage.url("acme/not-there")
    for _ in range(3):
        assert verify(box, "-q").code == 0
    assert not slowed(box)
    assert "do not retry" not in box.run("git", "ls-remote", url).err
    hammer = f"for i in $(seq 20); do git ls-remote {url} 2>/dev/null & done; wait"
    box.run("sh", "-c", hammer)
    assert "do not retry" in box.run("git", "ls-remote", url).err


def test_nothing_is_left_of_it(agent: Box, stage: Gitmoat) -> None:
    def files() -> set[Path]:
        return {path for top in ("etc", "run", "var") for path in (stage.root / top).rglob("*")}

    report(agent)
    before, sidecar = files(), agent.sidecar
    report(agent)
    assert files() - before == set()
    assert agent.sidecar == sidecar
    assert alive(sidecar)
    agent.run("git", "ls-remote", stage.url("acme/app")).expect_success("git after verify")


def test_people_get_a_line_for_each_control_and_one_for_all(agent: Box) -> None:
    ran = verify(agent, "--only", "dns,metadata")
    lines = ran.out.splitlines()
    assert ran.code == 0
    assert lines[-1].startswith(f"{agent.name}: all ")
    assert lines[0] == "dns"
    assert any("169.254" not in line and "metadata address" in line for line in lines)


def test_a_group_that_is_not_there_is_said(agent: Box) -> None:
    ran = verify(agent, "--only", "egrets")
    assert ran.code == 2
    assert "no group 'egrets'" in ran.err
    assert "egress" in ran.err


def test_a_token_in_the_environment_is_found_and_not_shown(make_box: MakeBox) -> None:
    box = make_box("-e", f"DEPLOY={TOKEN}")
    ran = verify(box, "--only", "secrets")
    assert ran.code == 6
    assert "N208" in ran.out
    assert TOKEN not in ran.out + ran.err
    wrong = [row for row in report(box, "--only", "secrets")["probes"] if not row["ok"]]
    assert [(row["as"], row["probe"]) for row in wrong] == [
        ("untrusted", "a token in environment or arguments")
    ]


def test_another_socket_in_the_sandbox_is_found(make_box: MakeBox, stage: Gitmoat) -> None:
    box = make_box()
    run = stage.paths.sandboxes_run / box.inspect()["sandbox"]
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(run / "docker.sock"))
        wrong = [row for row in report(box, "--only", "credential")["probes"] if not row["ok"]]
    assert {row["got"] for row in wrong} == {"/run/gitmoat/docker.sock"}
    assert {row["as"] for row in wrong} == {"untrusted", "helper"}


def test_an_abstract_socket_of_another_user_is_found(make_box: MakeBox) -> None:
    """The helper listens on one, as no part of ours does; the command sees it."""
    box = make_box("--agent")
    script = "import socket; s = socket.socket(socket.AF_UNIX); s.bind(chr(0) + 'x'); s.listen();"
    script += "print('ready', flush=True); import time; time.sleep(600)"
    words = ("exec", "--as", "helper", box.name, "--", "/usr/bin/python3", "-I", "-c", script)
    listener = box.stage.begin(*words)
    try:
        assert listener.stdout is not None
        assert listener.stdout.readline() == b"ready\n"
        wrong = [row for row in report(box, "--only", "credential")["probes"] if not row["ok"]]
    finally:
        listener.kill()
        listener.communicate()
    assert [(row["as"], row["got"]) for row in wrong] == [("untrusted", "@x")]


def test_a_command_that_kills_the_probes_does_not_pass(make_box: MakeBox) -> None:
    box = make_box("--agent")
    killer = box.begin("sh", "-c", "while :; do kill -9 -1; done")
    try:
        eventually(lambda: box.inspect()["exit"] is not None, "the killer kills")
        found = report(box, "--only", "calls,secrets,processes")
        missing = [row for row in found["probes"] if row["got"] == "not tried"]
        assert missing
        assert not any(row["ok"] for row in missing)
    finally:
        killer.kill()
        killer.communicate()


def test_a_signed_report_is_checked_and_a_changed_one_refused(
    agent: Box, stage: Gitmoat, tmp_path: Path
) -> None:
    ran = verify(agent, "--sign")
    assert ran.code == 0
    assert "controls are enforced" in ran.err
    path = tmp_path / "report.json"
    path.write_text(ran.out)
    key = json.loads(ran.out)["signature"]["key"]
    for words in ((), ("--key", key)):
        checked = stage.hostctl("verify", "--check", str(path), *words)
        assert checked.code == 0, checked.err
        assert checked.out.startswith(f"genuine: {agent.name} ")
    path.write_text(ran.out.replace('"ok": true', '"ok": false', 1))
    refused = stage.hostctl("verify", "--check", str(path))
    assert refused.code == 1
    assert "N211" in refused.err


def test_it_is_recorded(agent: Box, stage: Gitmoat) -> None:
    report(agent, "--only", "ports")
    lines = map(json.loads, stage.paths.hostd_audit.read_text().splitlines())
    told = [line for line in lines if line.get("op") == "verify"]
    assert told[-1]["decision"] == "allow"
    assert told[-1]["reason"].endswith(" enforced")


def test_a_sandbox_that_does_not_run_cannot_be_measured(make_box: MakeBox, stage: Gitmoat) -> None:
    box = make_box()
    stage.hostctl("stop", box.name).expect_success("stop")
    ran = verify(box)
    assert ran.code == 1
    assert "R106" in ran.err
    assert stage.hostctl("verify", "nobody").code == 4

"""`hostctl doctor` on a host that runs, and on one that was left in disorder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.stage.gitmoat import Gitmoat
from tests.stage.instance import Instance, make_instance


@pytest.fixture
def instance() -> Iterator[Instance]:
    made = make_instance()
    yield made
    made.remove()


def findings(stage: Gitmoat | Instance, *words: str) -> list[dict[str, Any]]:
    ran = stage.hostctl("--json", "doctor", *words)
    found: dict[str, Any] = json.loads(ran.out)
    assert found["schema"] == "gitmoat.doctor/1"
    assert ran.code == (6 if found["problems"] else 0)
    assert all(each["fix"] for each in found["findings"] if each["level"] != "ok")
    items: list[dict[str, Any]] = found["findings"]
    return items


def test_a_host_that_runs_has_no_problem(stage: Gitmoat) -> None:
    found = findings(stage)
    assert [each for each in found if each["level"] == "problem"] == []
    assert {each["check"] for each in found} >= {
        "kernel", "sysctl", "programs", "nftables", "cgroups", "clock", "docker",
        "files", "uids", "disk", "daemons", "leftovers", "upstreams",
    }  # fmt: skip
    assert any("demo: localhost" in each["what"] for each in found)


def test_what_is_wrong_comes_with_its_fix_and_is_fixed_when_asked(instance: Instance) -> None:
    paths = instance.paths
    instance.hostctl("up").expect_success("up")
    instance.kill()
    paths.host_key.chmod(0o644)
    shown = instance.hostctl("doctor")
    assert shown.code == 6
    assert f"fix: chmod 0600 {paths.host_key}" in shown.out
    assert f"fix: rm {paths.hostd_socket}" in shown.out
    assert "hostctl doctor --fix" in shown.err
    assert paths.hostd_socket.exists()
    fixed = [each["what"] for each in findings(instance, "--fix") if each["fixed"]]
    assert len([what for what in fixed if str(instance.root) in what]) == 3
    assert paths.host_key.stat().st_mode & 0o777 == 0o600
    assert not paths.hostd_socket.exists()
    assert not [each for each in findings(instance) if each["level"] == "problem"]
    instance.hostctl("up").expect_success("up again")


def test_a_quiet_look_says_only_what_is_wrong(stage: Gitmoat) -> None:
    ran = stage.hostctl("-q", "doctor")
    assert ran.code == 0
    assert not any(line.startswith("✓") for line in ran.out.splitlines())

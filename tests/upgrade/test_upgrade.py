"""The present code takes over what an older release left running: nobody in a sandbox notices."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from attrs import frozen

from gitmoat.version import VERSION
from hostctl.commands.up import start_missing
from hostctl.output import Output
from tests.live.inventory import cgroups
from tests.releases import Release, releases
from tests.stage.boxes import Box, alive
from tests.stage.gitmoat import Gitmoat
from tests.stage.kernel_view import processes
from tests.stage.repositories import ALLOWED
from tests.upgrade import older
from tests.waiting import eventually

pytestmark = pytest.mark.history

OLDER = releases()[-2:]  # who skips one release is served too
NAME = "older"
_COMMAND = "while :; do date +%s%N >/workspace/tick.new; mv tick.new tick; sleep 0.1; done"


@frozen
class Upgraded:
    """The sandbox that was made before, and what was said of everything then."""

    release: Release
    box: Box
    status: dict[str, Any]
    about: dict[str, Any]
    sessions: list[dict[str, Any]]
    journals: dict[str, dict[str, Any]]


@pytest.fixture(scope="module", params=OLDER, ids=lambda release: release.version)
def upgraded(request: pytest.FixtureRequest) -> Iterator[Upgraded]:
    with older.installed(request.param) as code, older.running(code) as stage:
        words = ("--agent", "--push", "agent/**", "--repo", stage.url(ALLOWED))
        code.hostctl(stage, "run", "-d", "--name", NAME, *words, "--", "/bin/sh", "-c", _COMMAND)
        box = Box(stage, NAME)
        status, about, sessions, audit = (
            json.loads(code.hostctl(stage, "--json", *words))
            for words in (("status",), ("inspect", NAME), ("session", "ls"), ("audit", "verify"))
        )
        eventually(lambda: tick(box), "the command's first sign", older.PATIENCE)
        for daemon in ("hostd", "broker"):
            older.stop(status[daemon]["pid"])
        assert alive(about["pid"]), "the sandbox goes on without them"
        stage.daemons = start_missing(stage.paths, Output(quiet=True))
        yield Upgraded(request.param, box, status, about, sessions["items"], audit["journals"])
        stage.hostctl("down", "--force", timeout=older.PATIENCE).expect_success("down")
        for each in stage.daemons:
            each.stop()


def tick(box: Box) -> str:
    path = box.path("/workspace/tick")
    return path.read_text() if path.exists() else ""


def status(stage: Gitmoat) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(stage.hostctl("--json", "status").expect_success("status"))
    return found


def test_daemons_of_the_present_version_run_where_the_last_release_ran(upgraded: Upgraded) -> None:
    now = status(upgraded.box.stage)
    for daemon in ("broker", "hostd"):
        assert upgraded.status[daemon]["version"] == upgraded.release.version
        assert now[daemon]["version"] == VERSION
        assert now[daemon]["pid"] != upgraded.status[daemon]["pid"]


def test_the_sandbox_is_adopted_and_its_command_has_not_noticed(upgraded: Upgraded) -> None:
    now = upgraded.box.inspect()
    for key in ("sandbox", "name", "state", "pid", "netns", "uids"):
        assert now[key] == upgraded.about[key], key
    before = tick(upgraded.box)
    eventually(lambda: tick(upgraded.box) != before, "the command goes on", older.PATIENCE)


def test_its_session_goes_on_over_the_sidecar_that_it_had(upgraded: Upgraded) -> None:
    said = upgraded.box.stage.hostctl("--json", "ls", "--fleet").expect_success("ls")
    assert json.loads(said)["items"] == upgraded.sessions
    now = upgraded.box.inspect()
    assert now["sidecar"] == upgraded.about["sidecar"]
    assert now["session"] == upgraded.about["session"]


def test_it_fetches_and_pushes(upgraded: Upgraded) -> None:
    box = upgraded.box
    script = """
    git fetch -q origin && git checkout -q -b agent/after && echo two >b.txt && git add b.txt
    git -c user.name=t -c user.email=t@example.com commit -q -m two
    git push -q origin agent/after && git rev-parse HEAD
    """
    commit = box.sh(f"set -e; cd /workspace; {script}").expect_success("fetch and push")
    assert box.stage.upstream_ref("refs/heads/agent/after") == commit


def test_a_push_that_was_refused_before_still_is(upgraded: Upgraded) -> None:
    ran = upgraded.box.sh("cd /workspace && git push origin HEAD:refs/heads/main")
    ran.expect_failure("a push to main")
    assert upgraded.box.stage.upstream_ref("refs/heads/main") == upgraded.box.stage.head


def test_the_journals_of_both_versions_are_one_chain(upgraded: Upgraded) -> None:
    said = upgraded.box.stage.hostctl("--json", "audit", "verify").expect_success("audit verify")
    for name, now in json.loads(said)["journals"].items():
        before = upgraded.journals[name]
        assert now["first"] == before["first"] and now["records"] > before["records"]


def test_a_new_sandbox_works_beside_it(upgraded: Upgraded) -> None:
    stage = upgraded.box.stage
    words = ("run", "--rm", "--repo", stage.url(ALLOWED), "--", "cat", "a.txt")
    assert stage.hostctl(*words, timeout=older.PATIENCE).expect_success("run") == "one"


def test_nothing_is_left_of_it_when_it_is_removed(upgraded: Upgraded) -> None:
    stage, pids = upgraded.box.stage, {upgraded.about["pid"], upgraded.box.sidecar}
    stage.hostctl("rm", "--force", NAME, timeout=older.PATIENCE).expect_success("rm")
    identifier = upgraded.about["sandbox"]
    assert status(stage)["sandboxes"] == 0
    assert not any(map(alive, pids))
    assert not [group for group in cgroups(stage.root) if identifier in group]
    assert not [line for line in processes().values() if identifier in line]
    folders = (stage.root / folder for folder in ("etc", "run", "var"))
    assert not [path for each in folders for path in each.rglob(f"*{identifier}*")]

"""One running Gitmoat (upstream, broker, hostd) for the tests that do not break it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from attrs import frozen

from hostctl.demo_stage import ALLOWED, Ran, Stage, close_stage, open_stage
from hostctl.output import Output


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    """Shared: a test that kills daemons or changes configuration makes a `fresh_stage`."""
    opened = open_stage(Output(quiet=True), keep=False)
    yield opened
    close_stage(opened)


@pytest.fixture
def fresh_stage() -> Iterator[Stage]:
    opened = open_stage(Output(quiet=True), keep=False)
    yield opened
    close_stage(opened)


@frozen
class Box:
    """A sandbox of a test, by name."""

    stage: Stage
    name: str

    def inspect(self) -> dict[str, Any]:
        ran = self.stage.hostctl("--json", "inspect", self.name)
        found: dict[str, Any] = json.loads(ran.expect_success("inspect"))
        return found

    def sh(self, script: str, *words: str, as_helper: bool = False) -> Ran:
        tier = "helper" if as_helper else "untrusted"
        return self.stage.hostctl(
            "exec", "--as", tier, self.name, "--", "/bin/sh", "-c", script, "test", *words
        )

    def git(self, *words: str) -> Ran:
        return self.stage.hostctl("git", self.name, "--", *words)

    def remove(self) -> None:
        self.stage.hostctl("rm", "--force", self.name)


MakeBox = Callable[..., Box]


@pytest.fixture
def make_box(stage: Stage) -> Iterator[MakeBox]:
    boxes: list[Box] = []

    def make(*words: str, repo: str | None = ALLOWED, on: Stage | None = None) -> Box:
        where = on or stage
        name = f"t-{uuid.uuid4().hex[:10]}"
        scope = ["--repo", where.url(repo)] if repo else []
        ran = where.hostctl(
            "run", "-d", "--name", name, *scope, *words, "--", "sleep", "infinity", timeout=120
        )
        ran.expect_success("hostctl run")
        boxes.append(Box(where, name))
        return boxes[-1]

    yield make
    for box in boxes:
        box.remove()


@pytest.fixture
def agent(make_box: MakeBox) -> Box:
    return make_box("--agent", "--push", "agent/**")


@pytest.fixture
def split(make_box: MakeBox) -> Box:
    return make_box("--push", "ci/**")

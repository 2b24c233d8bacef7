"""Worlds of the wire tests, and a stage, used here with hostile bytes."""

from collections.abc import Iterator

import pytest

from tests.fakes.broker_scene import scene
from tests.fakes.vectors import Spelling
from tests.fakes.whole_sidecar import world
from tests.stage.boxes import Box, box_maker
from tests.stage.gitmoat import Gitmoat, opened
from tests.stage.repositories import make_empty

__all__ = ["scene", "world"]

POLICY = """\
version = 1
name = "one"
[limits]
git_requests_per_minute = 100000
git_concurrency = 64
[[git]]
repos = ["demo:play/one", "demo:play/x-*"]
fetch = true
push = { branches = ["agent/**"] }
who = ["helper", "untrusted"]
[[git]]
effect = "deny"
repos = ["demo:play/x-secret"]
[[git]]
repos = ["demo:play/gate"]
fetch = true
"""


@pytest.fixture(scope="session")
def raw_stage() -> Iterator[Gitmoat]:
    with opened() as made:
        (made.paths.policies / "one.toml").write_text(POLICY)
        for name in ("one", "x-secret", "gate", "elsewhere"):
            make_empty(made, f"play/{name}")
        yield made


@pytest.fixture(scope="session")
def box(raw_stage: Gitmoat) -> Iterator[Box]:
    with box_maker(raw_stage) as make:
        yield make("--policy", "one", repo=None)


@pytest.fixture
def new_box(raw_stage: Gitmoat) -> Iterator[Box]:
    with box_maker(raw_stage) as make:
        yield make("--policy", "one", repo=None)


@pytest.fixture(scope="session")
def spelling(raw_stage: Gitmoat) -> Spelling:
    return Spelling(f"/localhost:{raw_stage.upstream.port}/", "play", "one")

"""One running Gitmoat (upstream, broker, hostd) for the tests that do not break it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from hostctl.demo_repositories import create_repository
from hostctl.demo_stage import ALLOWED, Stage, close_stage, open_stage
from hostctl.output import Output
from tests.live.boxes import Box, Clone
from tests.live.instances import use_own_uids
from tests.live.internet import Internet, open_internet
from tests.live.upstream_repositories import make_large
from tests.waiting import PATIENCE

MakeBox = Callable[..., Box]

# Everything below `play/` may be fetched and pushed by the command itself.
PLAY = """\
version = 1
name = "play"
[[git]]
id = "play"
repos = ["demo:play/*"]
fetch = true
push = { branches = ["main", "agent/**"], tags = ["v*"], create = true, update = true }
who = ["helper", "untrusted"]
[limits]
git_requests_per_minute = 10000
"""
LARGE = "play/large"
LARGE_MIB = 300


@contextmanager
def opened() -> Iterator[Stage]:
    stage = open_stage(Output(quiet=True), keep=False)
    try:
        use_own_uids(stage.paths)
        yield stage
    finally:
        close_stage(stage)


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    """Shared: a test that kills daemons or changes configuration makes a `fresh_stage`."""
    with opened() as made:
        (made.paths.policies / "play.toml").write_text(PLAY)
        create_repository(made.upstream.repositories, "play/one", {"a.txt": b"one\n"})
        yield made


@pytest.fixture
def fresh_stage() -> Iterator[Stage]:
    with opened() as made:
        yield made


def start_box(stage: Stage, *words: str, repo: str | None = ALLOWED) -> Box:
    name = f"t-{uuid.uuid4().hex[:10]}"
    scope = ["--repo", stage.url(repo)] if repo else []
    ran = stage.hostctl(
        "run", "-d", "--name", name, *scope, *words, "--", "sleep", "infinity", timeout=PATIENCE
    )
    ran.expect_success("hostctl run")
    return Box(stage, name)


@contextmanager
def box_maker(stage: Stage) -> Iterator[MakeBox]:
    boxes: list[Box] = []

    def make(*words: str, repo: str | None = ALLOWED, on: Stage | None = None) -> Box:
        boxes.append(start_box(on or stage, *words, repo=repo))
        return boxes[-1]

    try:
        yield make
    finally:
        for box in boxes:
            box.remove()


@pytest.fixture
def make_box(stage: Stage) -> Iterator[MakeBox]:
    with box_maker(stage) as make:
        yield make


@pytest.fixture(scope="module")
def make_shared_box(stage: Stage) -> Iterator[MakeBox]:
    with box_maker(stage) as make:
        yield make


@pytest.fixture(scope="module")
def agent(make_shared_box: MakeBox) -> Box:
    """Shared by the tests of a file; one that kills or revokes makes its own."""
    return make_shared_box("--agent", "--push", "agent/**")


@pytest.fixture(scope="module")
def split(make_shared_box: MakeBox) -> Box:
    return make_shared_box("--push", "ci/**")


@pytest.fixture(scope="module")
def player(make_shared_box: MakeBox) -> Box:
    """An agent whose policy allows every repository below `play/`."""
    return make_shared_box("--policy", "play", repo=None)


@pytest.fixture(scope="module")
def clone(agent: Box) -> Clone:
    return agent.clone(ALLOWED)


@pytest.fixture
def branch() -> str:
    return f"agent/{uuid.uuid4().hex[:10]}"


@pytest.fixture(scope="session")
def large(stage: Stage) -> str:
    """The commit of a repository that takes seconds to transfer."""
    return make_large(stage, LARGE, LARGE_MIB)


@pytest.fixture(scope="session")
def internet() -> Iterator[Internet]:
    """A Gitmoat of its own whose broker sees an internet that the test made."""
    with open_internet() as made:
        yield made

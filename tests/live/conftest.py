"""One running Gitmoat (upstream, broker, hostd) for the tests that do not break it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.stage.boxes import Box, Clone, MakeBox, box_maker
from tests.stage.gitmoat import Gitmoat, opened
from tests.stage.internet import Internet, open_internet
from tests.stage.play import LARGE, PLAY
from tests.stage.repositories import ALLOWED, create_repository, make_large

LARGE_MIB = 300


@pytest.fixture(scope="session")
def stage() -> Iterator[Gitmoat]:
    """Shared: a test that kills daemons or changes configuration makes a `fresh_stage`."""
    with opened() as made:
        (made.paths.policies / "play.toml").write_text(PLAY)
        create_repository(made.upstream.repositories, "play/one", {"a.txt": b"one\n"})
        yield made


@pytest.fixture
def fresh_stage() -> Iterator[Gitmoat]:
    with opened() as made:
        yield made


@pytest.fixture
def make_box(stage: Gitmoat) -> Iterator[MakeBox]:
    with box_maker(stage) as make:
        yield make


@pytest.fixture(scope="module")
def make_shared_box(stage: Gitmoat) -> Iterator[MakeBox]:
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
def large(stage: Gitmoat) -> str:
    """The commit of a repository that takes seconds to transfer."""
    return make_large(stage, LARGE, LARGE_MIB)


@pytest.fixture(scope="session")
def internet() -> Iterator[Internet]:
    """A Gitmoat of its own whose broker sees an internet that the test made."""
    with open_internet() as made:
        yield made

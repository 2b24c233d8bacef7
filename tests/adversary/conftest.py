"""One running Gitmoat for the attacks, with a gate that gives up soon, and hostile sandboxes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.adversary.hostile import OTHER, POLICY, Hostile, MakeHostile, hostile_maker
from tests.stage.gitmoat import Gitmoat, opened
from tests.stage.repositories import create_repository

# Shorter than anybody would configure: a test waits for each of them. Honest operations of a
# machine that is busy must fit in, too.
GATE = """
[gate]
answer = "8s"
stall = "8s"
whole = "60s"
"""


@pytest.fixture(scope="session")
def stage() -> Iterator[Gitmoat]:
    with opened() as made:
        made.hostctl("down", "--force").expect_success("down")
        with made.paths.hostd_toml.open("a") as file:
            file.write(GATE)
        made.hostctl("up").expect_success("up")
        (made.paths.policies / "hostile.toml").write_text(POLICY)
        create_repository(made.upstream.repositories, OTHER, {"other.txt": b"other\n"})
        yield made


@pytest.fixture(scope="module")
def make_hostile(stage: Gitmoat) -> Iterator[MakeHostile]:
    with hostile_maker(stage) as make:
        yield make


@pytest.fixture(scope="session")
def hostile(stage: Gitmoat) -> Iterator[Hostile]:
    """Shared by all: each test plants anew. One that kills its sandbox makes its own."""
    with hostile_maker(stage) as make:
        yield make()

"""One running Gitmoat for the attacks, with a gate that gives up soon, and hostile sandboxes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.adversary.hostile import OTHER, Hostile, start_hostile
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
# The command may use git itself, so that a test can show what a planted exploit does to it.
POLICY = """\
version = 1
name = "hostile"
[[git]]
id = "app"
repos = ["demo:acme/app", "demo:acme/other"]
fetch = true
push = { branches = ["ci/**"], create = true, update = true }
who = ["helper", "untrusted"]
[limits]
git_requests_per_minute = 10000
git_concurrency = 16
push_max = "8MiB"
"""
MakeHostile = Callable[..., Hostile]


@pytest.fixture(scope="session")
def stage() -> Iterator[Gitmoat]:
    with opened() as made:
        made.hostctl("down").expect_success("down")
        with made.paths.hostd_toml.open("a") as file:
            file.write(GATE)
        made.hostctl("up").expect_success("up")
        (made.paths.policies / "hostile.toml").write_text(POLICY)
        create_repository(made.upstream.repositories, OTHER, {"other.txt": b"other\n"})
        yield made


@contextmanager
def hostile_maker(stage: Gitmoat) -> Iterator[MakeHostile]:
    made: list[Hostile] = []

    def make(*words: str) -> Hostile:
        made.append(start_hostile(stage, *(words or ("--policy", "hostile"))))
        return made[-1]

    try:
        yield make
    finally:
        for each in made:
            each.session.close()
            each.box.remove()


@pytest.fixture(scope="module")
def make_hostile(stage: Gitmoat) -> Iterator[MakeHostile]:
    with hostile_maker(stage) as make:
        yield make


@pytest.fixture(scope="session")
def hostile(stage: Gitmoat) -> Iterator[Hostile]:
    """Shared by all: each test plants anew. One that kills its sandbox makes its own."""
    with hostile_maker(stage) as make:
        yield make()

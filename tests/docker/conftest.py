"""A real Docker Engine, and one Gitmoat that uses it, for all tests of this directory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.docker.engines import TestEngine
from tests.stage.boxes import MakeBox, box_maker
from tests.stage.gitmoat import Gitmoat, opened


@pytest.fixture(scope="session")
def engine() -> Iterator[TestEngine]:
    made = TestEngine()
    try:
        made.start()
        made.make_images()
        yield made
    finally:
        made.remove()


@pytest.fixture(scope="session")
def stage(engine: TestEngine) -> Iterator[Gitmoat]:
    with opened(engine.settings()) as made:
        yield made


@pytest.fixture
def make_box(stage: Gitmoat) -> Iterator[MakeBox]:
    with box_maker(stage) as make:
        yield make


@pytest.fixture(scope="module")
def make_shared_box(stage: Gitmoat) -> Iterator[MakeBox]:
    with box_maker(stage) as make:
        yield make

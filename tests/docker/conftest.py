"""A real Docker Engine, and one Gitmoat that uses it, for all tests of this directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hostctl.demo_stage import Stage, close_stage, open_stage
from hostctl.output import Output
from tests.docker.engines import TestEngine
from tests.live.conftest import MakeBox, box_maker
from tests.live.instances import use_own_uids


@pytest.fixture(scope="session")
def engine() -> Iterator[TestEngine]:
    made = TestEngine()
    try:
        made.start()
        made.make_images()
        yield made
    finally:
        made.remove()


@contextmanager
def opened(engine: TestEngine, more: str = "") -> Iterator[Stage]:
    settings = f'[docker]\nsocket = "{engine.socket}"\n{more}'
    stage = open_stage(Output(quiet=True), keep=False, hostd=settings)
    try:
        use_own_uids(stage.paths)
        yield stage
    finally:
        close_stage(stage)


@pytest.fixture(scope="session")
def stage(engine: TestEngine) -> Iterator[Stage]:
    with opened(engine) as made:
        yield made


@pytest.fixture
def make_box(stage: Stage) -> Iterator[MakeBox]:
    with box_maker(stage) as make:
        yield make


@pytest.fixture(scope="module")
def make_shared_box(stage: Stage) -> Iterator[MakeBox]:
    with box_maker(stage) as make:
        yield make

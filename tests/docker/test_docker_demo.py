"""`hostctl demo --image`: the same sixteen promises, with containers for sandboxes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from attrs import evolve

from hostctl.commands.demo import CHECKS, check_image, perform
from hostctl.demo.stage import Stage, close_stage, open_stage
from hostctl.failure import Failure
from hostctl.output import Output
from tests.docker.engines import TestEngine, image
from tests.docker.images import with_python
from tests.stage.instance import use_own_uids


@pytest.fixture
def demo(engine: TestEngine) -> Iterator[Stage]:
    made = open_stage(Output(quiet=True), keep=False, hostd=engine.settings())
    try:
        use_own_uids(made.paths)
        yield made
    finally:
        close_stage(made)


def test_every_promise_is_kept(engine: TestEngine, demo: Stage) -> None:
    engine.docker("import", "-", image("python"), stdin=with_python())
    demo.image = image("python")
    check_image(demo)
    outcomes = perform(demo, Output(quiet=True))
    listed = demo.hostctl("ls").expect_success("ls")
    assert [f"{each.check.name}: {each.detail}" for each in outcomes if not each.ok] == []
    assert len(outcomes) == len(CHECKS)
    assert listed.count("docker") == 2


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        (image("debian"), "C105", "lacks git or python3"),
        (image("nothing"), "R114", "has no image"),
    ],
)
def test_an_image_that_cannot_serve_is_told_once(
    demo: Stage, name: str, code: str, said: str
) -> None:
    with pytest.raises(Failure) as raised:
        check_image(evolve(demo, image=name))
    assert raised.value.code == code
    assert said in str(raised.value)

"""`hostctl demo --image`: the same sixteen promises, with containers for sandboxes."""

from __future__ import annotations

import pytest
from attrs import evolve

from hostctl.demo import check_image, checks, perform
from hostctl.demo_stage import Stage
from hostctl.failure import Failure
from hostctl.output import Output
from tests.docker.conftest import opened
from tests.docker.engines import TestEngine, image
from tests.docker.images import with_python

pytestmark = pytest.mark.live


def test_every_promise_is_kept(engine: TestEngine) -> None:
    engine.docker("import", "-", image("python"), stdin=with_python())
    with opened(engine) as stage:
        stage.image = image("python")
        check_image(stage)
        outcomes = perform(stage, Output(quiet=True))
        listed = stage.hostctl("ls").expect_success("ls")
    assert [f"{each.check.name}: {each.detail}" for each in outcomes if not each.ok] == []
    assert len(outcomes) == len(checks())
    assert listed.count("docker") == 2


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        (image("debian"), "C105", "has not both git and python3"),
        (image("nothing"), "R114", "has no image"),
    ],
)
def test_an_image_that_cannot_serve_is_told_once(
    stage: Stage, name: str, code: str, said: str
) -> None:
    with pytest.raises(Failure) as raised:
        check_image(evolve(stage, image=name))
    assert raised.value.code == code
    assert said in str(raised.value)

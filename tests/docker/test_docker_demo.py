"""`hostctl demo --image`: the same sixteen promises, with containers for sandboxes."""

from __future__ import annotations

import pytest

from hostctl.demo import checks, perform
from hostctl.output import Output
from tests.docker.conftest import opened
from tests.docker.engines import TestEngine, image
from tests.docker.images import with_python

pytestmark = pytest.mark.live


def test_every_promise_is_kept(engine: TestEngine) -> None:
    engine.docker("import", "-", image("python"), stdin=with_python())
    with opened(engine) as stage:
        stage.image = image("python")
        outcomes = perform(stage, Output(quiet=True))
        listed = stage.hostctl("ls").expect_success("ls")
    assert [f"{each.check.name}: {each.detail}" for each in outcomes if not each.ok] == []
    assert len(outcomes) == len(checks())
    assert listed.count("docker") == 2

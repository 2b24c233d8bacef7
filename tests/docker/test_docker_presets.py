"""`policy presets --image`: an image is read without running it, and opens nothing."""

from __future__ import annotations

import json

import pytest

from hostctl.demo_stage import Stage
from tests.docker.engines import TestEngine, image
from tests.docker.images import with_registries

pytestmark = pytest.mark.live


def test_an_image_suggests_and_nothing_of_it_runs_or_stays(
    engine: TestEngine, stage: Stage
) -> None:
    entry = ("--change", 'ENTRYPOINT ["/evil"]', "--change", "VOLUME /etc/apt")
    engine.docker("import", *entry, "-", image("registries"), stdin=with_registries())
    before = engine.docker("ps", "-aq", "--no-trunc")
    volumes = engine.docker("volume", "ls", "-q")
    ran = stage.hostctl("--json", "policy", "presets", "--image", image("registries"))
    told = json.loads(ran.expect_success("presets"))
    found = {(each["preset"], each["host"], each["port"]) for each in told["items"]}
    assert found == {
        ("pip", "pip.corp.example", 443),
        ("npm", "npm.corp.example", 443),
        ("apt", "apt.corp.example", 80),
        ("apt", "more.corp.example", 443),
    }
    assert told["suggested"] is True
    where = image("registries")
    assert f"{where}:/root/.npmrc: not read: not a plain file" in told["notes"]
    assert f"{where}:/root/.gemrc: not read: too large" in told["notes"]
    assert "secret" not in ran.text and "\x1b" not in ran.text
    assert engine.docker("ps", "-aq", "--no-trunc") == before
    assert engine.docker("volume", "ls", "-q") == volumes


def test_an_image_that_is_not_here_is_not_pulled(stage: Stage) -> None:
    ran = stage.hostctl("policy", "presets", "--image", "registry.example/no/such:1")
    assert ran.code == 125
    assert "R114" in ran.text and "docker pull registry.example/no/such:1" in ran.text

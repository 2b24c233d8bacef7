"""`hostctl verify` of a sandbox in a container: the same controls, and its image."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.docker.engines import TestEngine, image
from tests.stage.boxes import Box, MakeBox
from tests.waiting import PATIENCE


def report(box: Box) -> dict[str, Any]:
    ran = box.stage.hostctl("--json", "verify", box.name, timeout=PATIENCE)
    found: dict[str, Any] = json.loads(ran.out)
    assert ran.code == (0 if found["enforced"] == found["total"] else 6)
    return found


@pytest.mark.parametrize("kind", ["debian", "hostile"])
def test_every_control_is_enforced_whatever_the_image(
    make_box: MakeBox, engine: TestEngine, kind: str
) -> None:
    box = make_box("--agent", "--push", "agent/**", "--image", image(kind))
    found = report(box)
    assert [row for row in found["probes"] if not row["ok"]] == []
    assert found["total"] > 120
    assert any(row["probe"] == "the container is not as it was sealed" for row in found["probes"])
    facts, about = found["facts"], box.inspect()
    assert (facts["runtime"], facts["container"]) == ("docker", about["container"])
    assert facts["image"]["digest"] == engine.inspect(f"gitmoat-{about['sandbox']}")["Image"]

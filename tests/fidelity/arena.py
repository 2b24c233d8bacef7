"""Where an operation is done in three ways: directly, by the command, and by the helper."""

from __future__ import annotations

from attrs import define

from tests.fidelity.templates import Templates
from tests.fidelity.ways import Way
from tests.stage.boxes import Box
from tests.stage.gitmoat import Gitmoat

TIERS = ("direct", "agent", "helper")


@define(eq=False)
class Arena:
    stage: Gitmoat
    templates: Templates
    box: Box
    ways: dict[str, Way]

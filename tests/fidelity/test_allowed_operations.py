"""Every operation does through the chain what it does without it, and says the same."""

from __future__ import annotations

import pytest

from tests.fidelity.conftest import Arena
from tests.fidelity.operations import ALLOWED, Operation
from tests.fidelity.ways import Outcome, perform

pytestmark = pytest.mark.live

CASES = [
    pytest.param(each, tier, id=f"{each.name}-{tier}")
    for each in ALLOWED
    for tier in ("agent", "helper")
    if tier == "agent" or each.helper
]


@pytest.fixture(scope="module")
def without_us() -> dict[str, Outcome]:
    """Each operation's outcome on the direct way, made once."""
    return {}


def provide(arena: Arena, operation: Operation, tier: str) -> None:
    name = f"{tier}/{operation.name}"
    modules = {
        "modules-relative": {"sub": "../sub.git"},
        "modules-absolute": {"sub": f"{arena.stage.upstream.url}/{tier}/sub.git"},
    }.get(operation.template)
    if modules is None:
        arena.templates.copy(operation.template, name)
    else:
        arena.templates.with_modules(name, modules)


def done(arena: Arena, operation: Operation, tier: str) -> Outcome:
    provide(arena, operation, tier)
    return perform(arena.ways[tier], arena.stage, operation.script, operation.name)


@pytest.mark.parametrize(("operation", "tier"), CASES)
def test_operation_is_the_same_with_and_without_us(
    arena: Arena, without_us: dict[str, Outcome], operation: Operation, tier: str
) -> None:
    if operation.name not in without_us:
        without_us[operation.name] = done(arena, operation, "direct")
    direct, through = without_us[operation.name], done(arena, operation, tier)
    assert (through.code, through.out) == (direct.code, direct.out), through.err
    assert through.err == direct.err
    assert "fsck failed" not in through.state
    if not operation.template.startswith("modules-absolute"):
        # There the copy's own URL is in .gitmodules, so the commits differ.
        assert (through.state, through.upstream) == (direct.state, direct.upstream)

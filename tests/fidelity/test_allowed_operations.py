"""Every operation does through the chain what it does without it, and says the same."""

from __future__ import annotations

import pytest

from tests.fidelity.arena import TIERS, Arena
from tests.fidelity.operations import ALLOWED, Operation
from tests.fidelity.ways import Job, Outcome, selected, side_by_side

CASES = [
    pytest.param(each, tier, id=f"{each.name}-{tier}")
    for each in ALLOWED
    for tier in ("agent", "helper")
    if tier == "agent" or each.helper
]
Outcomes = dict[tuple[str, str], Outcome]


@pytest.fixture(scope="module")
def outcomes(arena: Arena, request: pytest.FixtureRequest) -> Outcomes:
    """Of every selected operation, on every way it is asked for, and directly."""
    work: dict[str, dict[str, Job]] = {tier: {} for tier in TIERS}
    for operation, on in selected(request, COMPARISON, "operation", "tier"):
        for tier in ("direct", on):
            if operation.name not in work[tier]:
                repository = provide(arena, operation, tier)
                work[tier][operation.name] = Job(operation.script, repository)
    done = side_by_side(arena.ways, {tier: list(jobs.values()) for tier, jobs in work.items()})
    return {
        (name, tier): outcome
        for tier in TIERS
        for name, outcome in zip(work[tier], done[tier], strict=True)
    }


def provide(arena: Arena, operation: Operation, tier: str) -> str:
    """This way's own copy of the operation's repository."""
    repository = f"{tier}/{operation.name}"
    modules = {
        "modules-relative": {"sub": "../sub.git"},
        "modules-absolute": {"sub": f"{arena.stage.upstream.url}/{tier}/sub.git"},
    }.get(operation.template)
    if modules is None:
        arena.templates.copy(operation.template, repository)
    else:
        arena.templates.with_modules(repository, modules)
    return repository


@pytest.mark.parametrize(("operation", "tier"), CASES)
def test_operation_is_the_same_with_and_without_us(
    outcomes: Outcomes, operation: Operation, tier: str
) -> None:
    direct, through = outcomes[operation.name, "direct"], outcomes[operation.name, tier]
    assert direct.code == operation.code, direct.err
    assert all(word in direct.out.split() for word in operation.says), direct.out
    assert (through.code, through.out) == (direct.code, direct.out), through.err
    assert through.err == direct.err
    assert "fsck failed" not in through.state
    if operation.template != "modules-absolute":
        # There the copy's own URL is in .gitmodules, so the commits differ.
        assert (through.state, through.upstream) == (direct.state, direct.upstream)


COMPARISON = test_operation_is_the_same_with_and_without_us.__name__

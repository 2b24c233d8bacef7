from __future__ import annotations

import pytest

from hostd.probes import PROBES, judge
from netpolicy.codes import CODES

TIERS = ("untrusted", "helper")


def good(tier: str) -> list[str | None]:
    return [None if probe.allowed else "EPERM" for probe in PROBES if probe.tier == tier]


@pytest.mark.parametrize("tier", TIERS)
def test_expected_outcomes_pass(tier: str) -> None:
    assert judge(tier, good(tier)) == []


@pytest.mark.parametrize("tier", TIERS)
def test_each_probe_can_fail(tier: str) -> None:
    """A probe whose outcome is turned round is reported, and only that one."""
    probes = [probe for probe in PROBES if probe.tier == tier]
    for number, probe in enumerate(probes):
        outcomes = good(tier)
        outcomes[number] = "EPERM" if probe.allowed else None
        wrong = judge(tier, outcomes)
        assert [each.probe for each in wrong] == [probe]
        assert probe.name in str(wrong[0])


def test_a_refusal_by_time_out_is_not_one() -> None:
    outcomes = good("helper")
    outcomes[-1] = "ETIMEDOUT"
    assert len(judge("helper", outcomes)) == 1


def test_probes_that_did_not_run_do_not_pass() -> None:
    assert len(judge("untrusted", [])) == len(good("untrusted"))


def test_every_code_is_explained() -> None:
    assert {probe.code for probe in PROBES} <= set(CODES)

"""The sidecar's sockets together leave room for each other."""

from __future__ import annotations

from gitmoat.listeners import BUDGETS
from gitmoat.messages.sidecar import MOST_DIALS
from netpolicy.policy import Limits
from sidecar import budgets
from sidecar.budgets import RequestRate


def test_full_to_the_brim_a_sidecar_still_has_descriptors() -> None:
    assert (
        sum(each.connections for each in BUDGETS.values()) + budgets.OTHER_DESCRIPTORS
        <= budgets.DESCRIPTORS
    )
    assert budgets.OTHER_DESCRIPTORS >= MOST_DIALS + budgets.EGRESS_LINKS + 12


def test_over_the_rate_an_operation_is_not_opened_but_a_running_one_may_go_on() -> None:
    rate = RequestRate(Limits(git_requests_per_minute=2), reserve=False)
    assert [rate.wait(0.0, True) for _ in range(3)] == [0.0, 0.0, 30.0]
    assert [rate.wait(0.0, False) for _ in range(3)] == [0.0, 0.0, 30.0]


def test_the_gate_has_a_quarter_more() -> None:
    rate = RequestRate(Limits(git_requests_per_minute=8), reserve=True)
    assert [rate.wait(0.0, True) > 0 for _ in range(11)] == [False] * 10 + [True]


def test_another_policy_has_another_rate_at_once() -> None:
    rate = RequestRate(Limits(git_requests_per_minute=1), reserve=False)
    assert [rate.wait(0.0, True) > 0 for _ in range(2)] == [False, True]
    rate.limit(Limits(git_requests_per_minute=2))
    assert [rate.wait(0.0, True) > 0 for _ in range(3)] == [False, False, True]

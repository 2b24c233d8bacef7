"""The sidecar's sockets together leave room for each other."""

from __future__ import annotations

import pytest

from broker.sessions.session_limits import Budget, Busy
from gitmoat.listeners import BUDGETS
from gitmoat.messages.sidecar import MOST_DIALS
from netpolicy.policy import Limits, Tier
from sidecar import budgets
from sidecar.budgets import RequestRate


def test_full_to_the_brim_a_sidecar_still_has_descriptors() -> None:
    assert (
        sum(each.connections for each in BUDGETS.values()) + budgets.OTHER_DESCRIPTORS
        <= budgets.DESCRIPTORS
    )
    assert budgets.OTHER_DESCRIPTORS >= MOST_DIALS + budgets.EGRESS_LINKS + 12


def test_over_the_rate_an_operation_is_not_opened_but_a_running_one_may_go_on() -> None:
    rate = RequestRate(Limits(git_requests_per_minute=2, git_concurrency=4), reserve=False)
    assert [rate.wait(0.0, True) for _ in range(17)] == [0.0] * 16 + [30.0]
    assert [rate.wait(0.0, False) for _ in range(17)] == [0.0] * 16 + [30.0]


@pytest.mark.parametrize(("per_minute", "concurrency"), [(1, 1), (2, 4), (60, 4), (60, 100)])
def test_the_sidecar_refuses_no_operation_that_the_broker_lets_wait(
    per_minute: int, concurrency: int
) -> None:
    limits = Limits(git_requests_per_minute=per_minute, git_concurrency=concurrency)
    rate, budget = RequestRate(limits, reserve=False), Budget(per_minute, concurrency)
    now, ends = 0.0, list[float]()
    for _ in range(10 * per_minute + 2 * concurrency):
        while isinstance(entered := budget.enter(Tier.UNTRUSTED, now), Busy):
            now = min(ends) if ends else now + entered.seconds
            for each in [end for end in ends if end <= now]:
                ends.remove(each)
                budget.leave(Tier.UNTRUSTED)
        ends.append(now + entered)
        assert rate.wait(now, True) == 0.0


def test_the_gate_has_a_quarter_more() -> None:
    rate = RequestRate(Limits(git_requests_per_minute=8, git_concurrency=4), reserve=True)
    assert [rate.wait(0.0, True) > 0 for _ in range(57)] == [False] * 56 + [True]


def test_another_policy_has_another_rate_at_once() -> None:
    rate = RequestRate(Limits(git_requests_per_minute=1, git_concurrency=1), reserve=False)
    assert [rate.wait(0.0, True) > 0 for _ in range(8)] == [False] * 7 + [True]
    rate.limit(Limits(git_requests_per_minute=2, git_concurrency=1))
    assert [rate.wait(0.0, True) > 0 for _ in range(13)] == [False] * 12 + [True]

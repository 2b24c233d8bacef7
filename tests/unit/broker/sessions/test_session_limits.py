"""One session's budget."""

import pytest

from broker.sessions.session_limits import LONGEST_WAIT, Budget, Busy
from netpolicy.policy import Tier

COMMAND, GATE = Tier.UNTRUSTED, Tier.HELPER


def test_requests_beyond_the_burst_wait_each_behind_the_other() -> None:
    budget = Budget(per_minute=60, concurrency=1000)
    assert [budget.enter(COMMAND, 0.0) for _ in range(300)] == [0.0] * 300
    assert [budget.enter(COMMAND, 0.0) for _ in range(3)] == [1.0, 2.0, 3.0]
    assert budget.enter(COMMAND, 2.0) == 2.0
    assert budget.enter(COMMAND, 5.0) == 0.0


def test_what_would_wait_too_long_is_refused_and_takes_nothing() -> None:
    budget = Budget(per_minute=60, concurrency=1000)
    for _ in range(300 + LONGEST_WAIT):
        assert not isinstance(budget.enter(COMMAND, 0.0), Busy)
    for _ in range(9):
        assert budget.enter(COMMAND, 0.0) == Busy(LONGEST_WAIT + 1)
    assert budget.running == 300 + LONGEST_WAIT
    assert budget.enter(COMMAND, 1.0) == LONGEST_WAIT


def test_a_slow_rate_says_how_long_to_wait() -> None:
    budget = Budget(per_minute=1, concurrency=9)
    assert [budget.enter(COMMAND, 0.0) for _ in range(5)] == [0.0] * 5
    assert budget.enter(COMMAND, 0.0) == Busy(60)
    assert budget.enter(COMMAND, 42.5) == Busy(18)
    assert budget.enter(COMMAND, 46.5) == pytest.approx(13.5)


def test_no_more_wait_than_may_run() -> None:
    budget = Budget(per_minute=60, concurrency=3)
    for _ in range(300):
        assert budget.enter(COMMAND, 0.0) == 0.0
        budget.leave(COMMAND)
    assert [budget.enter(COMMAND, 0.0) for _ in range(4)] == [1.0, 2.0, 3.0, Busy(1)]
    assert budget.enter(GATE, 0.0) == 0.0, "the gate has a reserve, and does not wait behind them"


def test_operations_at_the_same_time_are_counted() -> None:
    budget = Budget(per_minute=1000, concurrency=2)
    assert [budget.enter(COMMAND, 0.0) for _ in range(3)] == [0.0, 0.0, Busy(1)]
    budget.leave(COMMAND)
    assert budget.enter(COMMAND, 0.0) == 0
    assert budget.running == 2


def test_a_refused_operation_costs_nothing() -> None:
    budget = Budget(per_minute=2, concurrency=1)
    assert budget.enter(COMMAND, 0.0) == 0
    assert [budget.enter(COMMAND, 0.0) for _ in range(9)] == [Busy(1)] * 9
    budget.leave(COMMAND)
    assert budget.enter(COMMAND, 0.0) == 0


def test_a_command_that_uses_up_everything_leaves_the_gate_its_reserve() -> None:
    budget = Budget(per_minute=8, concurrency=4)
    assert [budget.enter(COMMAND, 0.0) for _ in range(5)] == [0.0] * 4 + [Busy(1)]
    assert [budget.enter(GATE, 0.0) for _ in range(2)] == [0.0, Busy(1)]
    for _ in range(4):
        budget.leave(COMMAND)
    while budget.enter(COMMAND, 0.0) == 0.0:
        budget.leave(COMMAND)
    budget.leave(GATE)
    assert budget.enter(GATE, 0.0) == 0.0


def test_another_policy_changes_the_numbers_and_what_runs_still_counts() -> None:
    budget = Budget(per_minute=2, concurrency=2)
    assert [budget.enter(COMMAND, 0.0) for _ in range(2)] == [0.0, 0.0]
    budget.limit(per_minute=100, concurrency=3)
    assert [budget.enter(COMMAND, 0.0) for _ in range(2)] == [0.0, Busy(1)]
    assert budget.running == 3
    budget.limit(per_minute=100, concurrency=1)
    budget.leave(COMMAND)
    assert budget.enter(COMMAND, 0.0) == Busy(1)


@pytest.mark.parametrize("per_minute", [1, 4])
def test_the_gates_reserve_ends_too(per_minute: int) -> None:
    budget = Budget(per_minute=per_minute, concurrency=1000)
    for _ in range(5 * per_minute + 5):
        assert budget.enter(GATE, 0.0) == 0.0
    assert budget.enter(GATE, 0.0) == (15.0 if per_minute == 4 else Busy(60))

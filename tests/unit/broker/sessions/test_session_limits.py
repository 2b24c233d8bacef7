"""One session's budget."""

from broker.sessions.session_limits import Budget
from netpolicy.policy import Tier

COMMAND, GATE = Tier.UNTRUSTED, Tier.HELPER


def test_requests_beyond_the_rate_wait_for_the_refill() -> None:
    budget = Budget(per_minute=60, concurrency=1000)
    assert [budget.enter(COMMAND, 0.0) for _ in range(60)] == [0] * 60
    assert budget.enter(COMMAND, 0.0) == 1
    assert budget.enter(COMMAND, 1.0) == 0
    assert budget.enter(COMMAND, 1.0) == 1


def test_a_slow_rate_says_how_long_to_wait() -> None:
    budget = Budget(per_minute=1, concurrency=9)
    assert budget.enter(COMMAND, 0.0) == 0
    assert budget.enter(COMMAND, 0.0) == 60
    assert budget.enter(COMMAND, 45.0) == 15


def test_operations_at_the_same_time_are_counted() -> None:
    budget = Budget(per_minute=1000, concurrency=2)
    assert [budget.enter(COMMAND, 0.0) for _ in range(3)] == [0, 0, 1]
    budget.leave(COMMAND)
    assert budget.enter(COMMAND, 0.0) == 0
    assert budget.running == 2


def test_a_refused_operation_costs_nothing() -> None:
    budget = Budget(per_minute=2, concurrency=1)
    assert budget.enter(COMMAND, 0.0) == 0
    assert [budget.enter(COMMAND, 0.0) for _ in range(9)] == [1] * 9
    budget.leave(COMMAND)
    assert budget.enter(COMMAND, 0.0) == 0


def test_a_command_that_uses_up_everything_leaves_the_gate_its_reserve() -> None:
    budget = Budget(per_minute=8, concurrency=4)
    assert [budget.enter(COMMAND, 0.0) for _ in range(5)] == [0, 0, 0, 0, 1]
    assert [budget.enter(GATE, 0.0) for _ in range(2)] == [0, 1]
    for _ in range(4):
        budget.leave(COMMAND)
    while not budget.enter(COMMAND, 0.0):
        budget.leave(COMMAND)
    budget.leave(GATE)
    assert budget.enter(COMMAND, 0.0) > 0
    assert budget.enter(GATE, 0.0) == 0


def test_another_policy_changes_the_numbers_and_what_runs_still_counts() -> None:
    budget = Budget(per_minute=2, concurrency=2)
    assert [budget.enter(COMMAND, 0.0) for _ in range(2)] == [0, 0]
    budget.limit(per_minute=100, concurrency=3)
    assert [budget.enter(COMMAND, 0.0) for _ in range(2)] == [0, 1]
    assert budget.running == 3
    budget.limit(per_minute=100, concurrency=1)
    budget.leave(COMMAND)
    assert budget.enter(COMMAND, 0.0) == 1


def test_the_gates_reserve_ends_too() -> None:
    budget = Budget(per_minute=4, concurrency=100)
    assert [budget.enter(GATE, 0.0) for _ in range(6)] == [0, 0, 0, 0, 0, 60]

"""One session's budget."""

from broker.limits import Budget


def test_requests_beyond_the_rate_wait_for_the_refill() -> None:
    budget = Budget(per_minute=60, concurrency=1000)
    assert [budget.enter(0.0) for _ in range(60)] == [0] * 60
    assert budget.enter(0.0) == 1
    assert budget.enter(1.0) == 0
    assert budget.enter(1.0) == 1


def test_a_slow_rate_says_how_long_to_wait() -> None:
    budget = Budget(per_minute=1, concurrency=9)
    assert budget.enter(0.0) == 0
    assert budget.enter(0.0) == 60
    assert budget.enter(45.0) == 15


def test_operations_at_the_same_time_are_counted() -> None:
    budget = Budget(per_minute=1000, concurrency=2)
    assert (budget.enter(0.0), budget.enter(0.0), budget.enter(0.0)) == (0, 0, 1)
    budget.leave()
    assert budget.enter(0.0) == 0


def test_a_refused_operation_costs_nothing() -> None:
    budget = Budget(per_minute=2, concurrency=1)
    assert budget.enter(0.0) == 0
    assert [budget.enter(0.0) for _ in range(9)] == [1] * 9
    budget.leave()
    assert budget.enter(0.0) == 0


def test_a_clock_that_steps_back_neither_fills_nor_empties_the_bucket() -> None:
    budget = Budget(per_minute=60, concurrency=9)
    assert budget.enter(1000.0) == 0
    assert budget.enter(0.0) == 0
    assert budget._tokens == 58.0

"""A timeout is moved far more often than it expires."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock

from gitmoat.net.timing import Timeout


def expiring(clock: Clock) -> tuple[Timeout, list[float]]:
    times: list[float] = []
    return Timeout(clock, lambda: times.append(clock.seconds())), times


@pytest.mark.parametrize("step", [1.0, 100.0])
def test_it_expires_once_and_not_before_its_time(step: float) -> None:
    clock = Clock()
    timeout, times = expiring(clock)
    timeout.set(100)
    clock.advance(99)
    assert times == []
    clock.advance(step)
    clock.advance(1000)
    assert times == [99 + step]
    timeout.set(1)
    clock.advance(1)
    assert len(times) == 2


def test_a_cleared_one_never_expires_and_leaves_no_timer() -> None:
    clock = Clock()
    timeout, times = expiring(clock)
    for seconds in (10, 600, 5):
        timeout.set(seconds)
    timeout.clear()
    assert clock.getDelayedCalls() == []
    timeout.clear()
    clock.advance(1000)
    assert times == []


def test_moving_it_back_makes_no_timer() -> None:
    clock = Clock()
    timeout, _ = expiring(clock)
    timeout.set(10)
    first = clock.getDelayedCalls()
    for seconds in (10, 65, 65, 600, 10):
        timeout.set(seconds)
        assert clock.getDelayedCalls() == first


moves = st.tuples(st.sampled_from(["set", "clear", "wait"]), st.integers(1, 30))


@given(st.lists(moves, max_size=30))
def test_it_expires_as_a_timer_does_that_is_made_anew_each_time(
    steps: list[tuple[str, int]],
) -> None:
    clock = Clock()
    timeout, times = expiring(clock)
    due, expected = None, []
    for what, number in [*steps, ("wait", 100)]:
        if what == "set":
            timeout.set(number)
            due = clock.seconds() + number
        elif what == "clear":
            timeout.clear()
            due = None
        else:
            for _ in range(number):
                clock.advance(1)
                if due == clock.seconds():
                    expected.append(due)
                    due = None
        timers = len(clock.getDelayedCalls())
        assert timers == (due is not None) or (timers == 1 and what != "clear")
    assert times == expected

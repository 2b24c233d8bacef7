"""A shared rate: nobody uses up what is another's."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gitmoat.limits.shares import SharedBucket


def taken(bucket: SharedBucket, asker: str, now: float, times: int) -> int:
    return sum(bucket.take(asker, now) == 0.0 for _ in range(times))


def test_who_takes_all_it_can_leaves_another_its_share() -> None:
    bucket = SharedBucket(1200)
    assert taken(bucket, "greedy", 0.0, 5000) == 600
    assert taken(bucket, "modest", 0.0, 20) == 20
    for second in range(1, 120):
        taken(bucket, "greedy", float(second), 500)
        assert taken(bucket, "modest", float(second), 5) == 5


def test_one_that_is_alone_has_the_whole_rate() -> None:
    bucket = SharedBucket(600)
    taken(bucket, "alone", 0.0, 1000)
    assert sum(taken(bucket, "alone", float(second), 100) for second in range(1, 61)) >= 590


def test_those_who_ask_much_get_alike() -> None:
    bucket = SharedBucket(1200)
    got = dict.fromkeys("abc", 0)
    for second in range(600):
        for name in got:
            got[name] += taken(bucket, name, float(second), 40)
    assert sum(got.values()) <= 1200 + 600 * 20
    assert min(got.values()) >= 0.5 * max(got.values())


def test_who_is_refused_is_told_when_to_come_back_and_it_holds() -> None:
    bucket = SharedBucket(60)
    while not bucket.take("a", 0.0):
        pass
    wait = bucket.take("a", 0.0)
    assert 0 < wait <= 60
    assert bucket.take("a", wait + 0.001) == 0.0


def test_who_no_longer_asks_is_forgotten() -> None:
    bucket = SharedBucket(6000)
    for number in range(1000):
        bucket.take(number, 0.0)
    bucket.take("x", 61.0)
    assert len(bucket) == 1


def test_a_rate_of_one_serves_one() -> None:
    bucket = SharedBucket(1)
    assert bucket.take("a", 0.0) == 0.0
    assert bucket.take("b", 0.0) == 60.0
    assert bucket.take("b", 60.0) == 0.0


@given(
    st.lists(st.tuples(st.floats(0, 20), st.sampled_from("abc"), st.integers(1, 9)), max_size=60)
)
def test_no_more_passes_than_a_minutes_worth_and_the_refill(
    steps: list[tuple[float, str, int]],
) -> None:
    bucket, now, passed = SharedBucket(10), 0.0, 0
    for step, asker, times in steps:
        now += step
        passed += taken(bucket, asker, now, times)
    assert passed <= 10 + now * 10 / 60 + 1e-6

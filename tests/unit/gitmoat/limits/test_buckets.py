"""Rates: what is taken, what is refused, and how long to wait."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitmoat.limits.buckets import KeyedBuckets, TokenBucket


def test_a_full_bucket_gives_its_burst_then_says_how_long_to_wait() -> None:
    bucket = TokenBucket.per_minute(60)
    assert [bucket.take(0.0) for _ in range(60)] == [0.0] * 60
    assert bucket.take(0.0) == 1.0
    assert bucket.take(1.0) == 0.0
    assert bucket.take(1.0) == 1.0


def test_a_refusal_costs_nothing() -> None:
    bucket = TokenBucket(rate=1.0, burst=1)
    assert bucket.take(0.0) == 0.0
    assert [bucket.take(0.5) for _ in range(100)] == [0.5] * 100
    assert bucket.take(1.0) == 0.0


def test_more_than_the_burst_is_taken_when_the_bucket_is_full() -> None:
    bucket = TokenBucket(rate=1.0, burst=4)
    assert bucket.take(0.0, 10) == 0.0
    assert bucket.take(0.0) == 7.0


def test_a_bucket_that_never_fills_is_a_mistake() -> None:
    for rate, burst in ((0.0, 1), (-1.0, 1), (1.0, 0)):
        with pytest.raises(ValueError, match="bucket"):
            TokenBucket(rate, burst)


@given(st.lists(st.tuples(st.floats(-50, 50), st.integers(1, 3)), max_size=60))
def test_whatever_the_clock_does_no_more_passes_than_burst_and_refill(
    steps: list[tuple[float, int]],
) -> None:
    bucket, now, taken, forward = TokenBucket(rate=2.0, burst=5), 100.0, 0, 0.0
    for step, amount in steps:
        now += step
        forward += max(0.0, step)
        taken += amount if bucket.take(now, amount) == 0.0 else 0
        assert 0.0 <= bucket.level(now) <= 5
    assert taken <= 5 + 2.0 * forward + 1e-6


def test_keys_do_not_touch_each_other_and_their_number_is_bounded() -> None:
    buckets = KeyedBuckets(rate=1.0, burst=1, keys=3)
    assert [buckets.take(key, 0.0) for key in "aab"] == [0.0, 1.0, 0.0]
    for key in range(100):
        buckets.take(key, 0.0)
    assert len(buckets) == 3


def test_the_key_in_use_is_not_the_one_forgotten() -> None:
    buckets = KeyedBuckets(rate=1.0, burst=1, keys=2)
    buckets.take("busy", 0.0)
    for key in range(9):
        buckets.take(key, 0.0)
        assert buckets.take("busy", 0.0) == 1.0

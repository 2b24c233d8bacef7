"""Bytes in all, the least rate, and the brake on refused things."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gitmoat.limits.brake import LIFTED, LONGEST, DenialBrake
from gitmoat.limits.quota import ByteQuota, Pace

FREE = 10


def test_a_quota_is_used_up_once() -> None:
    quota = ByteQuota(10)
    assert quota.spend(10)
    assert quota.left == 0
    assert not quota.spend(1)
    assert quota.left == 0


def test_a_stream_above_the_floor_is_left_alone_and_one_below_is_not() -> None:
    pace = Pace(floor=100)
    assert pace.look(0.0, 0)
    assert pace.look(10.0, 1000)
    assert not pace.look(20.0, 1999)
    assert pace.look(30.0, 2999)


def test_time_that_nobody_waited_for_it_does_not_count() -> None:
    pace = Pace(floor=100)
    pace.look(0.0, 0)
    assert pace.look(60.0, 0, owed=False)
    assert pace.look(61.0, 100)
    assert not pace.look(62.0, 100)


def test_a_clock_that_steps_back_condemns_nobody() -> None:
    pace = Pace(floor=1)
    pace.look(10.0, 0)
    assert pace.look(5.0, 0)


def test_the_first_refusals_are_free_then_each_takes_longer_up_to_a_bound() -> None:
    brake = DenialBrake(FREE)
    assert [brake.refused(0.0) for _ in range(FREE)] == [0.0] * FREE
    delays = [brake.refused(0.0) for _ in range(60)]
    assert delays[0] > 0
    assert delays == sorted(delays)
    assert delays[-1] == LONGEST
    assert brake.holds(0.0)
    assert brake.total == FREE + 60


def test_who_lets_off_is_forgiven() -> None:
    brake = DenialBrake(FREE)
    for _ in range(500):
        brake.refused(0.0)
    assert brake.holds(30.0)
    assert not brake.holds(120.0)
    assert brake.refused(120.0) == 0.0


@given(st.lists(st.floats(-1e4, 1e4), max_size=50))
def test_a_delay_is_never_negative_nor_beyond_the_bound(times: list[float]) -> None:
    brake = DenialBrake(FREE)
    for now in times:
        assert 0.0 <= brake.refused(now) <= LONGEST


def test_what_is_refused_while_it_is_lifted_slows_nobody_down_then_or_later() -> None:
    brake = DenialBrake(FREE)
    brake.refused(0.0, FREE)
    brake.lift(0.0, 20)
    assert [brake.refused(1.0) for _ in range(60)] == [0.0] * 60
    assert not brake.holds(1.0)
    assert brake.total == FREE + 60
    brake.lift(1.0, 0)
    assert brake.refused(1.0) > 0.0


def test_it_is_set_again_by_itself_and_never_lifted_for_long() -> None:
    brake = DenialBrake(FREE)
    brake.lift(0.0, 10**9)
    assert brake.refused(LIFTED - 1, FREE + 1) == 0.0
    assert brake.refused(LIFTED, FREE + 1) > 0.0

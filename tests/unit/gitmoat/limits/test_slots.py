"""What may happen at a time, and in which turn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitmoat.limits.slots import FairQueue, Slots


def test_slots_are_given_until_none_is_left() -> None:
    slots = Slots(2)
    assert [slots.enter("a") for _ in range(3)] == [True, True, False]
    slots.leave("a")
    assert slots.enter("b")
    assert (slots.used, slots.held("a"), slots.held("b")) == (2, 1, 1)


def test_the_reserve_is_kept_for_those_it_is_for() -> None:
    slots = Slots(4, reserved={"helper": 2})
    assert [slots.enter("untrusted") for _ in range(3)] == [True, True, False]
    assert [slots.enter("helper") for _ in range(3)] == [True, True, False]


def test_who_has_a_reserve_may_use_what_is_free_too() -> None:
    slots = Slots(4, reserved={"helper": 1})
    assert [slots.enter("helper") for _ in range(5)] == [True, True, True, True, False]
    assert not slots.enter("untrusted")


def test_one_key_holds_at_most_its_share() -> None:
    slots = Slots(10, each=2)
    assert [slots.enter("a") for _ in range(3)] == [True, True, False]
    assert slots.enter("b")


def test_wrong_use_is_loud() -> None:
    with pytest.raises(ValueError, match="reserved"):
        Slots(2, reserved={"helper": 2})
    with pytest.raises(ValueError, match="holds"):
        Slots(2).leave("a")


@given(st.lists(st.tuples(st.sampled_from(["helper", "a", "b"]), st.booleans()), max_size=80))
def test_whatever_others_do_the_reserve_can_be_entered(steps: list[tuple[str, bool]]) -> None:
    slots = Slots(6, reserved={"helper": 2})
    for who, enters in steps:
        if enters:
            slots.enter(who)
        elif slots.held(who):
            slots.leave(who)
        assert slots.used <= 6
        assert slots.held("helper") >= 2 or slots.room("helper")


def test_askers_take_turns_however_much_one_has_waiting() -> None:
    queue: FairQueue[str] = FairQueue(each=100, total=1000)
    for number in range(50):
        assert queue.put("greedy", f"g{number}")
    assert queue.put("modest", "m")
    assert [queue.take() for _ in range(4)] == ["g0", "m", "g1", "g2"]
    assert len(queue) == 47


def test_the_queue_is_bounded_for_one_and_for_all() -> None:
    queue: FairQueue[int] = FairQueue(each=2, total=3)
    assert [queue.put("a", n) for n in range(3)] == [True, True, False]
    assert [queue.put("b", n) for n in range(2)] == [True, False]
    assert queue.remove("a", 0)
    assert not queue.remove("a", 0)
    assert not queue.remove("c", 0)
    assert queue.put("b", 7)
    assert [queue.take() for _ in range(4)] == [1, 0, 7, None]


def test_an_asker_that_is_not_admitted_now_keeps_its_turn() -> None:
    queue: FairQueue[str] = FairQueue(each=9, total=9)
    for asker in "ab":
        queue.put(asker, asker)
    assert queue.take(lambda asker: asker == "b") == "b"
    assert queue.take(lambda asker: False) is None
    assert queue.take() == "a"
    assert len(queue) == 0

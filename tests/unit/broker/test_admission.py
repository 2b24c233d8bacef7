"""Whose turn it is at the broker."""

from __future__ import annotations

from functools import partial

from broker.admission import Admission, Turn
from broker.settings import BrokerLimits


def admission(**limits: int) -> Admission:
    return Admission(BrokerLimits(**limits))


def test_operations_go_at_once_while_there_is_room_then_wait() -> None:
    gone: list[str] = []
    desk = admission(operations=2)
    turns = [Turn(("h", f"s{n}"), partial(gone.append, str(n))) for n in range(3)]
    assert all(desk.ask(turn) for turn in turns)
    assert (gone, desk.running, desk.waiting) == (["0", "1"], 2, 1)
    desk.leave(turns[0])
    assert (gone, desk.running, desk.waiting) == (["0", "1", "2"], 2, 0)


def test_a_session_with_many_waiting_does_not_hold_up_another() -> None:
    gone: list[str] = []
    desk = admission(operations=1)
    turns: dict[str, Turn] = {}

    def add(asker: str, name: str) -> None:
        turns[name] = Turn(("h", asker), lambda: gone.append(name))
        desk.ask(turns[name])

    add("x", "first")
    for number in range(5):
        add("greedy", f"g{number}")
    add("modest", "m")
    for _ in range(4):
        desk.leave(turns[gone[-1]])
    assert gone == ["first", "g0", "m", "g1", "g2"]


def test_who_gives_up_waiting_leaves_no_hole() -> None:
    gone: list[str] = []
    desk = admission(operations=1)
    running, gives_up, next_one = (Turn(("h", "a"), partial(gone.append, n)) for n in "rgn")
    for turn in (running, gives_up, next_one):
        desk.ask(turn)
    desk.leave(gives_up)
    desk.leave(running)
    assert gone == ["r", "n"]


def test_a_long_row_of_operations_that_end_at_once_needs_no_deep_stack() -> None:
    desk = admission(operations=1)
    first = Turn(("h", "x"), lambda: None)
    desk.ask(first)
    done: list[int] = []

    def make(number: int) -> Turn:
        def go() -> None:
            done.append(number)
            desk.leave(turn)

        turn = Turn(("h", f"s{number}"), go)
        return turn

    for number in range(3000):
        assert desk.ask(make(number))
    desk.leave(first)
    assert len(done) == 3000
    assert (desk.running, desk.waiting) == (0, 0)


def test_there_is_an_end_to_waiting() -> None:
    desk = admission(operations=1)
    desk.ask(Turn(("h", "x"), lambda: None))
    assert [desk.ask(Turn(("h", "a"), lambda: None)) for _ in range(65)] == [True] * 64 + [False]


def test_one_host_over_its_rate_does_not_use_up_that_of_all() -> None:
    desk = admission(requests_per_minute=100, host_requests_per_minute=2)
    assert sum(desk.wait(("one", str(n)), 0.0) == 0 for n in range(50)) == 2
    assert [desk.wait(("two", str(n)), 0.0) for n in range(3)] == [0, 0, 30]


def test_all_hosts_together_have_a_rate() -> None:
    desk = admission(requests_per_minute=2, host_requests_per_minute=100)
    assert [desk.wait((host, "s"), 0.0) for host in "abc"] == [0, 0, 30]


def test_a_sandbox_over_its_share_leaves_that_of_others_on_its_host() -> None:
    desk = admission(requests_per_minute=200, host_requests_per_minute=100)
    assert sum(desk.wait(("one", "greedy"), 0.0) == 0 for _ in range(5000)) == 50
    assert [desk.wait(("one", "modest"), 0.0) for _ in range(20)] == [0] * 20


def test_a_sandbox_never_has_all_operations() -> None:
    gone: list[str] = []
    desk = admission(operations=4)
    greedy = [Turn(("h", "greedy"), partial(gone.append, "g")) for _ in range(4)]
    assert all(desk.ask(turn) for turn in greedy)
    assert desk.ask(Turn(("h", "modest"), partial(gone.append, "m")))
    assert (gone, desk.running, desk.waiting) == (["g", "g", "m"], 3, 2)
    desk.leave(greedy[0])
    assert gone == ["g", "g", "m", "g"]

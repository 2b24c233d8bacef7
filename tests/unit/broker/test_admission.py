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
    turns = [Turn("a", partial(gone.append, str(n))) for n in range(3)]
    assert all(desk.ask(turn) for turn in turns)
    assert (gone, desk.running, desk.waiting) == (["0", "1"], 2, 1)
    desk.leave(turns[0])
    assert (gone, desk.running, desk.waiting) == (["0", "1", "2"], 2, 0)


def test_a_session_with_many_waiting_does_not_hold_up_another() -> None:
    gone: list[str] = []
    desk = admission(operations=1)
    turns: dict[str, Turn] = {}

    def add(asker: str, name: str) -> None:
        turns[name] = Turn(asker, lambda: gone.append(name))
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
    running, gives_up, next_one = (Turn("a", partial(gone.append, n)) for n in "rgn")
    for turn in (running, gives_up, next_one):
        desk.ask(turn)
    desk.leave(gives_up)
    desk.leave(running)
    assert gone == ["r", "n"]


def test_a_long_row_of_operations_that_end_at_once_needs_no_deep_stack() -> None:
    desk = admission(operations=1)
    first = Turn("x", lambda: None)
    desk.ask(first)
    done: list[int] = []

    def make(number: int) -> Turn:
        def go() -> None:
            done.append(number)
            desk.leave(turn)

        turn = Turn(f"s{number}", go)
        return turn

    for number in range(3000):
        assert desk.ask(make(number))
    desk.leave(first)
    assert len(done) == 3000
    assert (desk.running, desk.waiting) == (0, 0)


def test_there_is_an_end_to_waiting() -> None:
    desk = admission(operations=1)
    desk.ask(Turn("x", lambda: None))
    assert [desk.ask(Turn("a", lambda: None)) for _ in range(65)] == [True] * 64 + [False]


def test_one_host_over_its_rate_does_not_use_up_that_of_all() -> None:
    desk = admission(requests_per_minute=10, host_requests_per_minute=2)
    assert [desk.wait("one", 0.0) for _ in range(50)][:3] == [0, 0, 30]
    assert [desk.wait("two", 0.0) for _ in range(3)] == [0, 0, 30]


def test_all_hosts_together_have_a_rate() -> None:
    desk = admission(requests_per_minute=2, host_requests_per_minute=100)
    assert [desk.wait(host, 0.0) for host in "abc"] == [0, 0, 30]

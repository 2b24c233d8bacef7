"""Whose turn it is at the broker."""

from __future__ import annotations

from functools import partial

from broker.config.settings import BrokerLimits
from broker.sessions.admission import Admission, Ticket


def admission(**limits: int) -> Admission:
    return Admission(BrokerLimits(**limits))


def test_operations_go_at_once_while_there_is_room_then_wait() -> None:
    gone: list[str] = []
    made = admission(operations=2)
    turns = [Ticket(("h", f"s{n}"), partial(gone.append, str(n))) for n in range(3)]
    assert all(made.ask(turn) for turn in turns)
    assert (gone, made.running, made.waiting) == (["0", "1"], 2, 1)
    made.leave(turns[0])
    assert (gone, made.running, made.waiting) == (["0", "1", "2"], 2, 0)


def test_a_session_with_many_waiting_does_not_hold_up_another() -> None:
    gone: list[str] = []
    made = admission(operations=1)
    turns: dict[str, Ticket] = {}

    def add(asker: str, name: str) -> None:
        turns[name] = Ticket(("h", asker), lambda: gone.append(name))
        made.ask(turns[name])

    add("x", "first")
    for number in range(5):
        add("greedy", f"g{number}")
    add("modest", "m")
    for _ in range(4):
        made.leave(turns[gone[-1]])
    assert gone == ["first", "g0", "m", "g1", "g2"]


def test_who_gives_up_waiting_leaves_no_hole() -> None:
    gone: list[str] = []
    made = admission(operations=1)
    running, gives_up, next_one = (Ticket(("h", "a"), partial(gone.append, n)) for n in "rgn")
    for turn in (running, gives_up, next_one):
        made.ask(turn)
    made.leave(gives_up)
    made.leave(running)
    assert gone == ["r", "n"]


def test_a_long_row_of_operations_that_end_at_once_needs_no_deep_stack() -> None:
    made = admission(operations=1)
    first = Ticket(("h", "x"), lambda: None)
    made.ask(first)
    done: list[int] = []

    def make(number: int) -> Ticket:
        def go() -> None:
            done.append(number)
            made.leave(turn)

        turn = Ticket(("h", f"s{number}"), go)
        return turn

    for number in range(3000):
        assert made.ask(make(number))
    made.leave(first)
    assert len(done) == 3000
    assert (made.running, made.waiting) == (0, 0)


def test_there_is_an_end_to_waiting() -> None:
    made = admission(operations=1)
    made.ask(Ticket(("h", "x"), lambda: None))
    assert [made.ask(Ticket(("h", "a"), lambda: None)) for _ in range(65)] == [True] * 64 + [False]


def test_one_host_over_its_rate_does_not_use_up_that_of_all() -> None:
    made = admission(requests_per_minute=100, host_requests_per_minute=2)
    assert sum(made.wait(("one", str(n)), 0.0) == 0 for n in range(50)) == 2
    assert [made.wait(("two", str(n)), 0.0) for n in range(3)] == [0, 0, 30]


def test_all_hosts_together_have_a_rate() -> None:
    made = admission(requests_per_minute=2, host_requests_per_minute=100)
    assert [made.wait((host, "s"), 0.0) for host in "abc"] == [0, 0, 30]


def test_a_sandbox_over_its_share_leaves_that_of_others_on_its_host() -> None:
    made = admission(requests_per_minute=200, host_requests_per_minute=100)
    assert sum(made.wait(("one", "greedy"), 0.0) == 0 for _ in range(5000)) == 50
    assert [made.wait(("one", "modest"), 0.0) for _ in range(20)] == [0] * 20


def test_a_sandbox_never_has_all_operations() -> None:
    gone: list[str] = []
    made = admission(operations=4)
    greedy = [Ticket(("h", "greedy"), partial(gone.append, "g")) for _ in range(4)]
    assert all(made.ask(turn) for turn in greedy)
    assert made.ask(Ticket(("h", "modest"), partial(gone.append, "m")))
    assert (gone, made.running, made.waiting) == (["g", "g", "m"], 3, 2)
    made.leave(greedy[0])
    assert gone == ["g", "g", "m", "g"]

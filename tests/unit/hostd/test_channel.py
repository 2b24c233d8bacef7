"""What a client says while its request is under way reaches whoever attends to it."""

from __future__ import annotations

import pytest

from hostd.api.admin import Channel
from hostd.failures import Failed


def channel() -> Channel:
    return Channel(lambda message: None, [])


def test_signals_that_come_before_the_command_is_known_to_run_are_not_lost() -> None:
    heard: list[int] = []
    early = channel()
    early.note({"signal": 2})
    early.note({"signal": 15})
    early.on_signal(heard.append)
    early.note({"signal": 1})
    assert heard == [2, 15, 1]


def test_a_flood_of_early_signals_is_bounded() -> None:
    heard: list[int] = []
    flooded = channel()
    for _ in range(1000):
        flooded.note({"signal": 10})
    flooded.on_signal(heard.append)
    assert len(heard) == 16


@pytest.mark.parametrize("message", [{"signal": 0}, {"signal": 65}, {"signal": "9"}, {"other": 1}])
def test_what_is_no_signal_is_ignored(message: dict[str, object]) -> None:
    heard: list[int] = []
    quiet = channel()
    quiet.note(message)
    quiet.on_signal(heard.append)
    quiet.note(message)
    assert heard == []


def test_a_client_that_left_early_is_heard_of_at_once() -> None:
    left: list[str] = []
    gone = channel()
    gone.still_wanted()
    gone.lost()
    gone.on_lost(lambda: left.append("lost"))
    assert left == ["lost"]
    with pytest.raises(Failed):
        gone.still_wanted()

"""A flood of refusals becomes a number, and nothing is lost of it."""

from __future__ import annotations

import json

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from broker.exchange.denials import BURST_OCTETS, DenialLog
from gitmoat.audit.events import PushDecision, RefChange
from gitmoat.audit.texts import octets


def test_the_first_refusals_have_records_and_the_rest_a_number() -> None:
    log = DenialLog()
    own = [log.own_record("G101", 0.0) for _ in range(100)]
    assert own == [True] * 20 + [False] * 80
    assert log.summary() == {"G101": 80}
    assert log.summary() == {}


def test_one_record_a_minute_says_that_a_rate_is_exceeded() -> None:
    log = DenialLog()
    assert [log.own_record("G303", 0.0) for _ in range(3)] == [True, False, False]
    assert log.own_record("B106", 0.0)
    assert log.own_record("G101", 0.0)
    assert log.own_record("G303", 60.0)
    assert log.summary() == {"G303": 2}


def test_refused_pushes_keep_their_refs_until_they_are_a_flood() -> None:
    log = DenialLog()
    assert [log.refs_shown(1000, 0.0) for _ in range(6)] == [1000] * 4 + [5] * 2
    assert log.refs_shown(3, 0.0) == 3
    assert log.refs_shown(1000, 100.0) == 1000


def test_what_a_session_may_ask_never_waits_for_the_journal() -> None:
    log = DenialLog(120)
    assert not any(log.wait([30], minute * 60.0) for minute in range(2000) for _ in range(120))


def test_a_day_of_pushes_with_many_refs_leaves_the_records_of_the_others_alone() -> None:
    """All that is written at 120 a minute, against the 4 GiB that are kept."""
    log, names = DenialLog(120), [512] * 1000
    second, taken = 0.0, 0
    while second < 86400:
        taken += not log.wait(names, second)
        second += 0.5
    assert 20 < taken * sum(names) < 300 << 20


@pytest.mark.parametrize("letter", ["a", "\u00e9", "\u4e00", "\U0001f600", "\u0085"])
@pytest.mark.parametrize("length", [1, 40, 100, 200, 496, 600])
def test_a_push_is_counted_with_at_least_what_its_record_takes(letter: str, length: int) -> None:
    """What is not ASCII is written escaped, up to eleven octets for one letter."""
    name = "refs/heads/agent/" + letter * length
    change = RefChange(name, "0" * 64, "1" * 64)
    event = PushDecision(
        sandbox="s", session="x", decision="allow", tier="helper", repo="up:a/b", refs=(change,)
    )
    one = len(json.dumps(event.fields())) - len(json.dumps(evolve(event, refs=()).fields()))
    log, taken = DenialLog(), 0
    while not log.wait([octets(name)] * 1000, 0.0):
        taken += 1
    assert taken * one * 1000 <= BURST_OCTETS


def test_refused_pushes_beyond_what_a_session_may_have_written_are_counted() -> None:
    log = DenialLog(120)
    own = [log.own_push_record("G201", [512] * 1000, 0.0) for _ in range(100)]
    assert own[:20] == [True] * 20 and not own[-1]
    assert log.summary() == {"G201": own.count(False)}


@given(st.lists(st.tuples(st.sampled_from(["G101", "G105", "G303", "U108"]), st.floats(0, 5))))
def test_every_refusal_is_recorded_or_counted(steps: list[tuple[str, float]]) -> None:
    log, now, own, counted = DenialLog(), 0.0, 0, 0
    for code, passed in steps:
        now += passed
        own += log.own_record(code, now)
        counted += sum(log.summary().values()) if passed > 4 else 0
    assert own + counted + sum(log.summary().values()) == len(steps)

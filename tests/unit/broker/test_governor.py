"""What an upstream asks for is honoured, and only what it says itself counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.governor import LONGEST, Breaker, CredentialBudget, Rest, asked_rest
from gitwire.http import Length, ResponseHead

WALL = 1_800_000_000.0  # Fri, 15 Jan 2027 08:00:00 GMT


def head(status: int, **headers: str) -> ResponseHead:
    lines = tuple(
        (name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()
    )
    return ResponseHead(status, lines, Length(0), False)


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (head(200), 0),
        (head(404), 0),
        (head(500), 0),
        (head(429), 30),
        (head(429, retry_after="7"), 7),
        (head(403, retry_after="9"), 9),
        (head(403), 0),
        (head(503, retry_after="5"), 5),
        (head(503), 0),
        (head(200, retry_after="5"), 0),
        (head(429, Retry_After="Fri, 15 Jan 2027 08:01:00 GMT"), 60),
        (head(429, retry_after="Fri, 15 Jan 2027 07:00:00 GMT"), 30),
        (head(429, retry_after="soon"), 30),
        (head(429, retry_after="99999999"), LONGEST),
        (head(200, x_ratelimit_remaining="0", x_ratelimit_reset="1800000042"), 42),
        (head(200, x_ratelimit_remaining="1", x_ratelimit_reset="1800000042"), 0),
        (head(200, RateLimit_Remaining="0", RateLimit_Reset="12"), 12),
        (head(403, x_ratelimit_remaining="0", x_ratelimit_reset="1800000042"), 42),
        (head(403, x_ratelimit_remaining="0"), 30),
    ],
)
def test_how_long_an_answer_asks_us_to_rest(answer: ResponseHead, seconds: int) -> None:
    assert asked_rest(answer, WALL) == seconds


def test_the_servers_own_clock_counts_when_it_tells_it() -> None:
    date = "Fri, 15 Jan 2027 08:00:30 GMT"
    answer = head(429, date=date, x_ratelimit_remaining="0", x_ratelimit_reset="1800000042")
    assert asked_rest(answer, WALL - 9999) == 12


@given(
    st.integers(200, 599),
    st.dictionaries(
        st.sampled_from(["retry-after", "date", "x-ratelimit-reset", "x-ratelimit-remaining"]),
        st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60),
    ),
)
def test_no_header_makes_us_rest_for_ever_or_fail(status: int, headers: dict[str, str]) -> None:
    lines = tuple((key.encode(), value.encode()) for key, value in headers.items())
    assert 0 <= asked_rest(ResponseHead(status, lines, Length(0), False), WALL) <= LONGEST


def test_one_credential_has_one_budget() -> None:
    budget = CredentialBudget(2)
    assert [budget.take(0.0) for _ in range(3)] == [None, None, Rest("U108", 30)]
    assert budget.take(30.0) is None


def test_nothing_goes_up_while_the_upstream_wants_rest() -> None:
    budget = CredentialBudget(1000)
    budget.heard(head(429, retry_after="20"), 100.0, WALL)
    assert budget.take(100.0) == Rest("U108", 20)
    budget.heard(head(429, retry_after="1"), 101.0, WALL)
    assert budget.take(110.0) == Rest("U108", 10)
    assert budget.take(120.0) is None


def test_after_failures_in_a_row_an_upstream_is_left_alone_and_tried_by_one() -> None:
    breaker = Breaker()
    for _ in range(4):
        breaker.failed(0.0)
        assert breaker.rest(0.0) is None
    breaker.failed(0.0)
    assert breaker.open
    assert breaker.rest(1.0) == Rest("U101", 1)
    assert breaker.rest(2.0) is None
    assert breaker.rest(2.0) == Rest("U101", 2)
    breaker.worked()
    assert breaker.rest(2.0) is None


def test_the_pause_grows_up_to_a_bound() -> None:
    breaker = Breaker()
    for _ in range(50):
        breaker.failed(0.0)
    assert breaker.rest(0.0) == Rest("U101", 30)


def test_a_success_between_failures_starts_the_count_anew() -> None:
    breaker = Breaker()
    for _ in range(20):
        breaker.failed(0.0)
        breaker.failed(0.0)
        breaker.worked()
    assert not breaker.open

"""What an upstream asks for is honoured, and only what it says itself counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.upstream.limiter import (
    LONGEST,
    MOST_BREAKERS,
    Breaker,
    CredentialBudget,
    RepositoryBreakers,
    Rest,
    asked_rest,
)
from gitmoat.wire.http.heads import Length, ResponseHead

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
    assert [budget.take(who, 0.0) for who in "abc"] == [None, None, Rest("U108", 30)]
    assert budget.take("c", 30.0) is None


def test_one_sandbox_cannot_use_up_a_credentials_budget() -> None:
    budget = CredentialBudget(1200)
    got = [budget.take("greedy", 0.0) for _ in range(3000)]
    assert got[0] is None and got[-1] is not None and got[-1].code == "U108"
    assert [budget.take("modest", 0.0) for _ in range(100)] == [None] * 100


def test_nothing_goes_up_while_the_upstream_wants_rest() -> None:
    budget = CredentialBudget(1000)
    budget.heard("a", head(429, retry_after="20"), 100.0, WALL)
    assert budget.take("a", 100.0) == Rest("U108", 20)
    budget.heard("a", head(429, retry_after="1"), 101.0, WALL)
    assert budget.take("a", 110.0) == Rest("U108", 10)
    assert budget.take("a", 120.0) is None


def test_a_rest_is_everybodys_when_two_were_told_and_one_provokes_it_for_itself_only() -> None:
    budget = CredentialBudget(1000)
    for _ in range(10):
        budget.heard("hostile", head(429, retry_after="3600"), 100.0, WALL)
    assert budget.take("other", 100.0) is None and not budget.resting(100.0)
    budget.heard("other", head(429, retry_after="50"), 101.0, WALL)
    assert budget.take("third", 101.0) == Rest("U108", 50)
    assert budget.resting(101.0) == 50
    assert budget.take("third", 151.0) is None
    assert budget.take("hostile", 151.0) == Rest("U108", 3549)


def test_two_rests_that_do_not_meet_are_of_two() -> None:
    budget = CredentialBudget(1000)
    budget.heard("a", head(429, retry_after="5"), 100.0, WALL)
    budget.heard("b", head(429, retry_after="5"), 200.0, WALL)
    assert budget.take("c", 200.0) is None


def test_a_credential_with_nothing_left_rests_for_everybody_at_once() -> None:
    budget = CredentialBudget(1000)
    none_left = head(200, x_ratelimit_remaining="0", x_ratelimit_reset="1800000042")
    budget.heard("a", none_left, 100.0, WALL)
    assert budget.take("b", 100.0) == Rest("U108", 42)


def test_an_upstream_that_is_down_for_one_says_nothing_of_the_credential() -> None:
    budget = CredentialBudget(1000)
    for who in "ab":
        budget.heard(who, head(503, retry_after="60"), 100.0, WALL)
    assert budget.take("a", 100.0) is None


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


def test_who_tries_and_breaks_off_takes_nobody_elses_turn() -> None:
    breaker = Breaker()
    for _ in range(5):
        breaker.failed(0.0)
    assert breaker.rest(2.0, "breaks off") is None
    assert breaker.rest(2.0, "breaks off") == Rest("U101", 2)
    assert breaker.rest(2.0, "other") is None
    breaker.failed(2.0)
    assert breaker.rest(2.0, "third") == Rest("U101", 4)


def test_a_repository_that_fails_is_left_alone_and_another_is_not() -> None:
    breakers = RepositoryBreakers()
    for _ in range(5):
        breakers.failed("broken", 0.0, "U110")
    assert breakers.rest("broken", 0.0) == Rest("U110", 2)
    assert breakers.rest("healthy", 0.0) is None
    breakers.worked("broken")
    assert breakers.rest("broken", 0.0) is None
    assert not len(breakers)


def test_a_repository_that_asks_for_rest_has_it_at_once() -> None:
    breakers = RepositoryBreakers()
    breakers.failed("broken", 0.0, "U110", rest=40)
    assert breakers.rest("broken", 10.0) == Rest("U110", 30)
    assert breakers.rest("broken", 40.0) is None


def test_failing_repositories_are_bounded_and_the_oldest_is_forgotten() -> None:
    breakers = RepositoryBreakers()
    for number in range(MOST_BREAKERS * 10):
        for _ in range(5):
            breakers.failed(number, 0.0, "U110")
        assert len(breakers) <= MOST_BREAKERS
    assert breakers.rest(0, 0.0) is None
    assert breakers.rest(MOST_BREAKERS * 10 - 1, 0.0) is not None


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

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sidecar.credential.tokens import LIFETIME, ScopedRepository, Tokens, scoped

APP = ScopedRepository("hub", "acme/app")
WEB = ScopedRepository("hub", "acme/web")


class Time:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_token_is_accepted_for_its_repository_only() -> None:
    tokens = Tokens(Time())
    token = tokens.issue(APP).encode()
    assert tokens.accepts(APP, token)
    assert not tokens.accepts(WEB, token)
    assert not tokens.accepts(ScopedRepository("corp", "acme/app"), token)


def test_a_token_ends_after_ten_minutes_of_the_monotonic_clock() -> None:
    time = Time()
    tokens = Tokens(time)
    token = tokens.issue(APP).encode()
    time.now += LIFETIME - 0.001
    assert tokens.accepts(APP, token)
    time.now += 0.001
    assert not tokens.accepts(APP, token)
    assert LIFETIME == 600


def test_an_older_token_stays_good_beside_a_newer_one() -> None:
    tokens = Tokens(Time())
    first, second = tokens.issue(APP).encode(), tokens.issue(APP).encode()
    assert first != second
    assert tokens.accepts(APP, first)
    assert tokens.accepts(APP, second)


def test_asking_in_a_loop_keeps_a_bounded_number_of_tokens() -> None:
    tokens = Tokens(Time())
    issued = [tokens.issue(APP).encode() for _ in range(1000)]
    assert [token for token in issued if tokens.accepts(APP, token)] == issued[-8:]


def test_asking_for_many_repositories_forgets_the_oldest() -> None:
    tokens = Tokens(Time())
    each = [ScopedRepository("hub", f"acme/{n}") for n in range(1000)]
    issued = [(repository, tokens.issue(repository).encode()) for repository in each]
    kept = [repository for repository, token in issued if tokens.accepts(repository, token)]
    assert kept == each[-128:]


def test_tokens_have_at_least_128_bits_and_fit_an_http_password() -> None:
    token = Tokens(Time()).issue(APP)
    assert len(token) >= 22
    assert token.isascii()
    assert not set(token) & set(": \r\n")


@given(st.binary(max_size=64))
def test_no_other_bytes_are_a_token(presented: bytes) -> None:
    tokens = Tokens(Time())
    token = tokens.issue(APP).encode()
    assert tokens.accepts(APP, presented) == (presented == token)


def test_no_token_is_shown_by_repr() -> None:
    tokens = Tokens(Time())
    token = tokens.issue(APP)
    assert token not in repr(tokens)
    assert token not in repr(vars(tokens))


def test_spellings_are_folded_only_where_the_upstream_folds() -> None:
    assert scoped("hub", "Acme/App", fold=True) == scoped("hub", "acme/app", fold=True)
    assert scoped("hub", "Acme/App", fold=False) != scoped("hub", "acme/app", fold=False)

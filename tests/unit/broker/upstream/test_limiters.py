"""Whose budget and whose breaker a request has."""

from __future__ import annotations

from typing import Any

from attrs import define

from broker.upstream.limiter import RepositoryBreakers, Rest
from broker.upstream.limiters import UpstreamLimiters
from gitmoat.wire.http.heads import Length, ResponseHead


@define
class Config:
    name: str
    provider: str


@define
class Way:
    config: Config


@define(eq=False)
class Asker:
    """What a governor knows of a session."""

    owner: tuple[str, str]
    breakers: RepositoryBreakers


def asker(name: str) -> Any:
    return Asker(("host", name), RepositoryBreakers())


def way(upstream: str, provider: str = "token") -> Any:
    return Way(Config(upstream, provider))


TOO_MANY = ResponseHead(
    429, ((b"Retry-After", b"900"), (b"X-RateLimit-Remaining", b"0")), Length(0), False
)


def test_a_rest_is_of_one_upstream_and_one_credential() -> None:
    governors = UpstreamLimiters(1200, lambda: 0.0, lambda: 0.0)
    one, other = asker("a"), asker("b")
    governors.of(way("limited"), one, "untrusted", "r").answered(TOO_MANY)
    assert governors.of(way("limited"), other, "untrusted", "r").ask() == Rest("U108", 900)
    assert governors.of(way("elsewhere"), one, "untrusted", "r").ask() is None
    assert governors.of(way("limited", "another"), one, "untrusted", "r").ask() is None


def test_the_command_closes_no_door_of_the_gate() -> None:
    governors = UpstreamLimiters(1200, lambda: 0.0)
    session = asker("a")
    untrusted = governors.of(way("up"), session, "untrusted", "r")
    for _ in range(5):
        untrusted.lost()
    assert untrusted.ask() == Rest("U101", 2)
    assert governors.of(way("up"), session, "helper", "r").ask() is None


def test_a_connection_that_cannot_be_made_counts_for_everybody_until_one_is() -> None:
    governors = UpstreamLimiters(1200, lambda: 0.0)
    one = governors.of(way("up"), asker("a"), "untrusted", "r")
    other = governors.of(way("up"), asker("b"), "untrusted", "s")
    for _ in range(5):
        one.unreachable()
    assert other.ask() == Rest("U101", 2)
    assert governors.of(way("up2"), asker("b"), "untrusted", "s").ask() is None
    one.reached()
    assert other.ask() is None

"""What GitHub is asked for, and what its answers mean."""

import json
from email.utils import formatdate
from typing import Any

import pytest

from broker.config.settings import UpstreamConfig
from broker.config.values import Address, Api
from broker.credentials.providers.credential import CredentialRequest
from broker.credentials.providers.github_api import (
    Denied,
    Limited,
    Minted,
    Skewed,
    api_of,
    mint_body,
    read_outcome,
)
from broker.sessions.running import AdminTask
from gitmoat.wire.http.heads import Length, ResponseHead

NOW = 1_800_000_000.0
GITHUB = UpstreamConfig("gh", Address("github.com", 443), (), (), "p", True)
READ = CredentialRequest(AdminTask("test"), GITHUB, "acme/app", write=False)
WRITE = CredentialRequest(AdminTask("test"), GITHUB, "acme/app", write=True)
WORKFLOWS = CredentialRequest(AdminTask("test"), GITHUB, "acme/app", write=True, workflows=True)


def head(status: int, date: float | None = NOW, **more: str) -> ResponseHead:
    headers = [(name.replace("_", "-").encode(), value.encode()) for name, value in more.items()]
    if date is not None:
        headers.append((b"date", formatdate(date, usegmt=True).encode()))
    return ResponseHead(status, tuple(headers), Length(0), close=False)


def token(**changes: Any) -> bytes:
    answer = {
        "token": "ghs_marker",
        "expires_at": "2027-01-15T09:00:00Z",  # an hour after NOW
        "permissions": {"contents": "read", "metadata": "read"},
        "repositories": [{"full_name": "Acme/App"}],
    }
    return json.dumps(answer | changes).encode()


@pytest.mark.parametrize(
    ("wanted", "permissions"),
    [
        (READ, {"contents": "read", "metadata": "read"}),
        (WRITE, {"contents": "write", "metadata": "read"}),
        (WORKFLOWS, {"contents": "write", "metadata": "read", "workflows": "write"}),
    ],
)
def test_a_token_is_asked_for_one_repository_and_one_kind_of_use(
    wanted: CredentialRequest, permissions: dict[str, str]
) -> None:
    body = json.loads(mint_body(wanted))
    assert body == {"repositories": ["app"], "permissions": permissions}


def test_the_api_is_where_the_server_has_it() -> None:
    assert api_of(GITHUB, None) == Api(Address("api.github.com", 443), "")
    own = UpstreamConfig("ghe", Address("git.example", 8443), (), (), "p", True)
    assert api_of(own, None) == Api(Address("git.example", 8443), "/api/v3")
    given = Api(Address("api.git.example", 443), "")
    assert api_of(own, given) is given


def test_a_token_is_kept_until_shortly_before_its_end_by_githubs_own_clock() -> None:
    outcome = read_outcome(head(201), token(), READ, clock=NOW - 20)
    assert isinstance(outcome, Minted)
    assert outcome.seconds == 3600 - 300
    assert outcome.credential.password.expose() == b"ghs_marker"
    assert outcome.credential.scope == "acme/app: contents=read, metadata=read"
    spent = read_outcome(head(201, NOW + 3500), token(), READ, clock=NOW)
    assert isinstance(spent, Minted) and spent.seconds == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"permissions": {"contents": "write", "metadata": "read"}},
        {"permissions": {"contents": "read", "metadata": "read", "issues": "read"}},
        {"permissions": {"contents": "admin"}},
        {"repositories": [{"full_name": "acme/app"}, {"full_name": "acme/other"}]},
        {"repositories": [{"full_name": "evil/app"}]},
        {"repositories": []},
    ],
)
def test_a_token_for_more_than_was_asked_is_not_used(changes: dict[str, Any]) -> None:
    outcome = read_outcome(head(201), token(**changes), READ, clock=NOW)
    assert isinstance(outcome, Denied) and "more than was asked" in outcome.why


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"null", b"{}", token(token="two words"), token(expires_at="soon"), b"[" * 9999],
)
def test_what_is_not_understood_is_refused(body: bytes) -> None:
    outcome = read_outcome(head(201), body, READ, clock=NOW)
    assert isinstance(outcome, Denied) and "not understood" in outcome.why


def test_a_clock_that_is_not_githubs_is_found_out() -> None:
    assert read_outcome(head(401, NOW + 500), b"", READ, clock=NOW) == Skewed(500)
    assert read_outcome(head(401, NOW - 500), b"", READ, clock=NOW) == Skewed(-500)
    for date in (NOW + 5, None):
        assert isinstance(read_outcome(head(401, date), b"", READ, clock=NOW), Denied)


@pytest.mark.parametrize(
    ("got", "seconds"),
    [
        (head(403, retry_after="7"), 7),
        (head(429, retry_after="99999999"), 3600),
        (head(403, x_ratelimit_remaining="0", x_ratelimit_reset=str(int(NOW) + 30)), 31),
        (head(429), 60),
    ],
)
def test_a_rate_limit_says_how_long_to_wait(got: ResponseHead, seconds: int) -> None:
    assert read_outcome(got, b"", READ, clock=NOW) == Limited(seconds)


@pytest.mark.parametrize("status", [200, 301, 401, 403, 404, 422, 500])
def test_everything_else_is_a_reason_for_the_admin(status: int) -> None:
    outcome = read_outcome(head(status), token(), READ, clock=NOW)
    assert isinstance(outcome, Denied) and outcome.why and outcome.fix


def test_a_header_that_says_two_things_is_not_understood() -> None:
    """Found by fuzzing: it was taken for a mistake in the sandbox's own request."""
    twice = ResponseHead(401, ((b"date", b"x"), (b"date", b"y")), Length(0), close=False)
    outcome = read_outcome(twice, b"", READ, NOW)
    assert isinstance(outcome, Denied) and "not understood" in outcome.why

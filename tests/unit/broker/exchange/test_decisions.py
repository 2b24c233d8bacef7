"""The broker's own decision, made again from what the host signed."""

import pytest

from broker.exchange.decisions import (
    AT_ONCE,
    RequestContext,
    decide_commands,
    decide_request,
    decide_session,
    deciding_commands,
    read_sidecar_headers,
)
from broker.sessions.store.interface import State
from gitmoat.wire.git.receivepack import Command, ObjectId, PushCommands, parse_ref
from gitmoat.wire.git.repository_name import parse_place, parse_repository
from gitmoat.wire.git.smarthttp import Advertise, Fetch, GitRequest, Push, Service
from gitmoat.wire.http.heads import NoBody, RequestHead
from gitmoat.wire.malformed import Malformed
from netpolicy.decision import Allow, Deny, PushDenied, decide_push
from netpolicy.format.document import parse_policy
from netpolicy.policy import Tier
from netpolicy.upstreams import Upstream

POLICY = parse_policy(
    """
version = 1
name = "p"
[[git]]
id = "both"
repos = ["up:acme/open"]
fetch = true
push = { branches = ["agent/**"], create = true, update = true }
who = ["helper", "untrusted"]
[[git]]
id = "gate"
repos = ["up:acme/gate"]
fetch = true
[[git]]
id = "drop"
repos = ["up:acme/drop"]
fetch = false
push = { branches = ["**"], create = true }
"""
)
UP = Upstream("up", ("git.example",), False)
PLACE = parse_place(b"up")


def asked(
    request: GitRequest, tier: Tier = Tier.HELPER, up: Upstream | None = UP
) -> RequestContext:
    return RequestContext(request, tier, POLICY, up)


def advertise(path: bytes, service: Service = Service.UPLOAD_PACK) -> Advertise:
    return Advertise(PLACE, parse_repository(path), service, 2)


def push(*refs: bytes) -> PushCommands:
    zero, one = ObjectId("0" * 40), ObjectId("1" * 40)
    return PushCommands(tuple(Command(zero, one, parse_ref(ref)) for ref in refs))


def head(*headers: tuple[bytes, bytes]) -> RequestHead:
    return RequestHead(b"GET", b"/", headers, NoBody(), False, False)


def test_the_envelope_needs_a_known_tier_and_an_exact_request_id() -> None:
    tier, number = (b"gitmoat-tier", b"helper"), (b"gitmoat-request-id", b"0123456789abcdef")
    envelope = read_sidecar_headers(head(tier, number))
    assert (envelope.tier, envelope.request_id) == (Tier.HELPER, "0123456789abcdef")
    for broken in (
        [tier],
        [number],
        [tier, tier, number],
        [(b"gitmoat-tier", b"root"), number],
        [(b"gitmoat-tier", b"HELPER"), number],
        [tier, (b"gitmoat-request-id", b"0123456789ABCDEF")],
        [tier, (b"gitmoat-request-id", b"0123456789abcdef0")],
    ):
        with pytest.raises(Malformed):
            read_sidecar_headers(head(*broken))


def test_only_an_active_session_may_ask() -> None:
    assert decide_session(State.ACTIVE, None) is None
    for state, overdue, code in (
        (State.CLOSED, None, "S102"),
        (State.CLOSED, "expired", "S101"),
        (State.ACTIVE, "expired", "S101"),
        (State.ACTIVE, "idle", "S101"),
        (State.ENDED, None, "S101"),
        (State.ENDED, "expired", "S101"),
    ):
        denied = decide_session(state, overdue)
        assert denied is not None and denied.code == code


def test_the_tier_is_decided_again() -> None:
    assert decide_request(asked(advertise(b"acme/gate"))) == Allow("gate")
    denied = decide_request(asked(advertise(b"acme/gate"), Tier.UNTRUSTED))
    assert isinstance(denied, Deny) and denied.code == "G101"
    assert decide_request(asked(advertise(b"acme/open"), Tier.UNTRUSTED)) == Allow("both")


@pytest.mark.parametrize("path", [b"acme/other", b"acme/open/x", b"acme", b"ACME/OPEN"])
@pytest.mark.parametrize("service", list(Service))
def test_an_unknown_repository_is_denied_whatever_is_asked(path: bytes, service: Service) -> None:
    for request in (
        advertise(path, service),
        Fetch(PLACE, parse_repository(path), 2, False),
        Push(PLACE, parse_repository(path), 0),
    ):
        denied = decide_request(asked(request))
        assert isinstance(denied, Deny) and denied.code == "G101"


def test_what_belongs_to_a_denied_repository_is_denied_and_no_wildcard_takes_it_in() -> None:
    text = """version = 1
name = "p"
[[git]]
repos = ["up:acme/*", "up:acme/secret.wiki", "up:acme/app.wiki"]
fetch = true
[[git]]
effect = "deny"
repos = ["up:acme/secret"]
"""
    policy = parse_policy(text)

    def denied(path: bytes) -> bool:
        verdict = decide_request(RequestContext(advertise(path), Tier.HELPER, policy, UP))
        return isinstance(verdict, Deny)

    assert denied(b"acme/secret.wiki.git") and denied(b"acme/other.wiki.git")
    assert not denied(b"acme/app.wiki.git") and not denied(b"acme/app.git")


def test_an_upstream_that_is_not_configured_looks_like_an_unknown_repository() -> None:
    denied = decide_request(asked(advertise(b"acme/open"), up=None))
    assert isinstance(denied, Deny) and denied.code == "G101"
    commands = decide_commands(
        asked(Push(PLACE, parse_repository(b"acme/open"), 0), up=None), push()
    )
    assert isinstance(commands, PushDenied)


def test_fetching_needs_a_rule_that_fetches() -> None:
    for request in (
        advertise(b"acme/drop"),
        Fetch(PLACE, parse_repository(b"acme/drop"), 2, False),
    ):
        denied = decide_request(asked(request))
        assert isinstance(denied, Deny) and denied.code == "G105"
    assert decide_request(asked(advertise(b"acme/drop", Service.RECEIVE_PACK))) == Allow("drop")


@pytest.mark.parametrize("denied", [(), (0,), (3 * AT_ONCE,), (5, AT_ONCE - 1, AT_ONCE)], ids=str)
@pytest.mark.parametrize("count", [AT_ONCE, AT_ONCE + 1, 3 * AT_ONCE + 1])
def test_a_long_push_is_decided_in_steps_and_as_it_would_be_at_once(
    count: int, denied: tuple[int, ...]
) -> None:
    names = [b"refs/heads/agent/%d" % number for number in range(count)]
    for number in [each for each in denied if each < count]:
        names[number] = b"refs/heads/main%d" % number
    request, commands = asked(Push(PLACE, parse_repository(b"acme/open"), 0)), push(*names)
    *steps, verdict = deciding_commands(request, commands)
    assert steps == [None] * ((count - 1) // AT_ONCE)
    assert verdict == decide_push(
        request.policy, "up", parse_repository(b"acme/open"), request.tier, False, commands.commands
    )
    assert isinstance(verdict, PushDenied) is any(each < count for each in denied)


def test_one_ref_outside_the_scope_denies_the_push() -> None:
    request = asked(Push(PLACE, parse_repository(b"acme/open"), 0))
    assert decide_commands(request, push(b"refs/heads/agent/a")) == Allow("both")
    denied = decide_commands(request, push(b"refs/heads/agent/a", b"refs/heads/main"))
    assert isinstance(denied, PushDenied)
    assert denied.code == "G201"
    assert set(denied.reasons) == {"refs/heads/agent/a", "refs/heads/main"}

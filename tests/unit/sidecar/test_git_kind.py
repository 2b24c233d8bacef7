from __future__ import annotations

import base64

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gitmoat.wire.git.smarthttp import Advertise, Fetch, classify
from gitmoat.wire.http.heads import Chunked, NoBody, RequestHead, RequestReader, ResponseHead
from gitmoat.wire.malformed import Malformed
from netpolicy.policy import Tier
from sidecar.credential.tokens import ScopedRepository
from sidecar.kind import (
    Accepts,
    Allow,
    Answered,
    Challenge,
    Decision,
    Deny,
    Reply,
    Scope,
    Source,
    Told,
)
from sidecar.kinds.git import GIT, Forward, token_in
from tests.fakes.sidecar_scope import POLICY, UPSTREAMS, basic, get, head, info_refs, post

APP = ScopedRepository("hub", "acme/app")


class Doorman:
    """Accepts one token for one repository, and remembers being asked."""

    def __init__(self) -> None:
        self.asked: list[ScopedRepository] = []

    def __call__(self, repository: ScopedRepository, token: bytes) -> bool:
        self.asked.append(repository)
        return repository == APP and token == b"good"


def at(tier: Tier) -> Source:
    return Source("untrusted_git", tier, 1)


def decide(tier: Tier, request: RequestHead, accepts: Accepts) -> Decision[Forward]:
    asked = GIT.classify(request, at(tier))
    assert asked is not None
    if isinstance(asked, Deny):
        return asked
    return GIT.decide(asked, at(tier), Scope(POLICY, UPSTREAMS, accepts))


def refusal(refused: Deny | Challenge, request_id: str, tier: Tier) -> Reply:
    return GIT.refuse(refused, Told(request_id, POLICY, tier))


def broker_head(
    forward: Forward, tier: Tier, request_id: str, framing: NoBody | Chunked, request: RequestHead
) -> bytes:
    raw = GIT.head(forward, at(tier), request_id, evolve(request, framing=framing))
    assert isinstance(raw, bytes)
    return raw


def helper(request: RequestHead) -> Decision[Forward]:
    return decide(Tier.HELPER, request, Doorman())


def untrusted(request: RequestHead) -> Decision[Forward]:
    def nobody(repository: ScopedRepository, token: bytes) -> bool:
        raise AssertionError("no token counts for the untrusted tier")

    return decide(Tier.UNTRUSTED, request, nobody)


HIDDEN = [
    "hub.example/acme/other",
    "hub.example/acme/web-secrets",
    "hub.example/acme/WEB-SECRETS",
    "hub.example/acme/web-secrets.wiki",
    "hub.example/acme/web-1.wiki",
    "nowhere.example/acme/app",
    "hub.example/acme/%61pp",
    "hub.example/acme/app/..",
    "hub/acme/app",
    "HUB.example/acme/app",
]


@pytest.mark.parametrize("repository", HIDDEN)
@pytest.mark.parametrize("tier", list(Tier))
def test_unknown_forbidden_and_misspelt_are_one_answer_before_any_401(
    repository: str, tier: Tier
) -> None:
    doorman = Doorman()
    decision = decide(tier, info_refs(repository, basic("good")), doorman)
    assert isinstance(decision, Deny)
    assert (decision.code, decision.status) == ("G101", 404)
    assert doorman.asked == []
    reply = refusal(decision, "0" * 16, tier)
    unknown = refusal(Deny("G101", 404, "x"), "0" * 16, tier)
    assert reply == unknown


def test_the_helper_is_asked_for_a_token_inside_its_scope() -> None:
    decision = helper(info_refs("hub.example/acme/app.git"))
    assert decision == Challenge("hub:acme/app", presented=False)


def test_a_good_token_is_forwarded_for_its_repository_only() -> None:
    good = helper(info_refs("hub.example/acme/app.git", basic("good")))
    assert isinstance(good, Allow)
    assert good.going.upstream.name == "hub"
    other = helper(info_refs("hub.example/acme/gate.git", basic("good")))
    assert other == Challenge("hub:acme/gate", presented=True)


@pytest.mark.parametrize(
    "header",
    [
        basic("bad"),
        basic("good", username="x-access-token"),
        "Authorization: Bearer good",
        "Authorization: Basic",
        "Authorization: Basic !!!!",
        "Authorization: Basic Z29vZA==",
    ],
)
def test_anything_but_the_token_is_challenged_again(header: str) -> None:
    decision = helper(info_refs("hub.example/acme/app", header))
    assert decision == Challenge("hub:acme/app", presented=True)


def test_two_authorizations_are_malformed() -> None:
    request = info_refs("hub.example/acme/app", basic("good"), basic("bad"))
    assert helper(request) == Deny("G104", 400, close=True)


def test_the_untrusted_tier_needs_no_token_and_none_is_looked_at() -> None:
    for headers in ([], [basic("good")], [basic("wrong")]):
        assert isinstance(untrusted(info_refs("hub.example/acme/app", *headers)), Allow)


def test_a_rule_for_the_helper_only_does_not_exist_for_the_untrusted_tier() -> None:
    assert untrusted(info_refs("hub.example/acme/gate")) == Deny("G101", 404, "hub:acme/gate")


def test_a_repository_for_pushing_only_is_not_fetched_from() -> None:
    name = "hub.example/acme/drop"
    assert untrusted(info_refs(name)) == Deny("G105", 404, "hub:acme/drop")
    assert untrusted(post(name, "git-upload-pack")) == Deny("G105", 200, "hub:acme/drop")
    assert isinstance(untrusted(info_refs(name, service="git-receive-pack")), Allow)
    assert isinstance(untrusted(post(name, "git-receive-pack")), Allow)


def test_reports_name_a_repository_as_the_policy_does_where_it_can() -> None:
    known = untrusted(info_refs("www.hub.example/acme/other.git"))
    unknown = untrusted(info_refs("nowhere.example/acme/app"))
    assert known == Deny("G101", 404, "hub:acme/other")
    assert unknown == Deny("G101", 404, "nowhere.example:acme/app")


def test_what_is_not_smart_http_is_refused() -> None:
    assert untrusted(get("/hub.example/acme/app/HEAD")) == Deny("G103", 404)
    assert untrusted(get("/hub.example/acme/app/info/refs")) == Deny("G103", 404)
    assert untrusted(get("/")) == Deny("G103", 404)
    assert untrusted(get("/hub.example/acme/app/info/refs?service=x")) == Deny(
        "G104", 400, close=True
    )


def test_lfs_is_refused_in_its_own_json_whatever_the_repository() -> None:
    allowed = untrusted(get("/hub.example/acme/app.git/info/lfs/locks"))
    hidden = untrusted(get("/hub.example/acme/other.git/info/lfs/locks"))
    assert allowed == hidden == Deny("G102", 501)
    assert isinstance(allowed, Deny)
    reply = refusal(allowed, "0" * 16, Tier.UNTRUSTED)
    assert reply.headers == ((b"Content-Type", b"application/vnd.git-lfs+json"),)
    assert reply.body.startswith(b'{"message": "gitmoat: ')


def test_refusals_say_what_is_allowed_and_carry_code_and_request_id() -> None:
    reply = refusal(Deny("G101", 404), "00ff" * 4, Tier.UNTRUSTED)
    text = reply.body.decode("ascii")
    assert "G101" in text
    assert "00ff" * 4 in text
    assert "hub:acme/app" in text
    assert "acme/gate" not in text
    assert reply.headers == ((b"Content-Type", b"text/plain"),)


def test_a_refused_fetch_is_a_packet_git_prints() -> None:
    reply = refusal(Deny("G105", 200), "0" * 16, Tier.UNTRUSTED)
    assert reply.status == 200
    assert reply.headers == ((b"Content-Type", b"application/x-git-upload-pack-result"),)
    assert reply.body[4:].startswith(b"ERR gitmoat: ")
    assert int(reply.body[:4], 16) == len(reply.body)


def test_a_challenge_names_basic_and_says_why() -> None:
    reply = refusal(Challenge("hub:acme/app", False), "0" * 16, Tier.HELPER)
    assert reply.status == 401
    assert (b"WWW-Authenticate", b'Basic realm="gitmoat"') in reply.headers
    assert b"H104" in reply.body


def forwarded(request: RequestHead) -> Forward:
    decision = untrusted(request)
    assert isinstance(decision, Allow)
    return decision.going


def test_the_broker_gets_a_request_made_of_constants() -> None:
    request = post(
        "www.hub.example/acme/app",
        "git-upload-pack",
        basic("secret-token"),
        "Git-Protocol: version=2",
        "User-Agent: evil/1",
        "X-Forwarded-For: 1.2.3.4",
        "Accept-Encoding: deflate, gzip, br, zstd",
        "Gitmoat-Tier: helper",
        "Gitmoat-Request-Id: mine",
    )
    raw = broker_head(forwarded(request), Tier.UNTRUSTED, "00ff" * 4, Chunked(), request)
    assert raw == (
        b"POST /git/hub/acme/app/git-upload-pack HTTP/1.1\r\n"
        b"Host: gitmoat\r\n"
        b"Gitmoat-Request-Id: 00ff00ff00ff00ff\r\n"
        b"Gitmoat-Tier: untrusted\r\n"
        b"Accept: application/x-git-upload-pack-result\r\n"
        b"Content-Type: application/x-git-upload-pack-request\r\n"
        b"Git-Protocol: version=2\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )


def test_sidecar_and_broker_read_the_forwarded_request_alike() -> None:
    request = info_refs("hub.example/acme/app.git", "Git-Protocol: version=2")
    forward = forwarded(request)
    raw = broker_head(forward, Tier.UNTRUSTED, "0" * 16, NoBody(), request)
    seen = classify(head(raw), b"/git/")
    assert isinstance(seen, Advertise)
    assert isinstance(forward.request, Advertise)
    assert seen.place.text == forward.upstream.name
    assert (seen.repository, seen.service, seen.protocol) == (
        forward.request.repository,
        forward.request.service,
        forward.request.protocol,
    )


def test_no_byte_of_any_authorization_reaches_the_broker() -> None:
    request = info_refs("hub.example/acme/app", basic("good"))
    decision = helper(request)
    assert isinstance(decision, Allow)
    raw = broker_head(decision.going, Tier.HELPER, "0" * 16, NoBody(), request)
    assert b"uthorization" not in raw
    assert b"good" not in raw


FOUND = forwarded(info_refs("hub.example/acme/app"))
FETCH = Forward(FOUND.upstream, Fetch(FOUND.request.place, FOUND.request.repository, 2, False))
RESULT = b"application/x-git-upload-pack-result"


def response(status: int, *headers: tuple[bytes, bytes]) -> ResponseHead:
    return ResponseHead(status, headers, Chunked(), False)


def shown(head: ResponseHead, tier: Tier = Tier.HELPER) -> Answered | Deny:
    return GIT.answer(FETCH, at(tier), head)


def test_a_result_is_passed_on_under_a_new_head() -> None:
    head = response(
        200,
        (b"content-type", RESULT),
        (b"set-cookie", b"a=b"),
        (b"www-authenticate", b"Basic"),
        (b"location", b"http://evil"),
    )
    assert shown(head) == Answered(
        200, ((b"Content-Type", RESULT), (b"Cache-Control", b"no-cache"))
    )


@pytest.mark.parametrize(
    ("status", "content_type"),
    [
        (200, b"text/html"),
        (200, b"text/plain"),
        (200, b"application/x-git-receive-pack-result"),
        (200, RESULT + b"; charset=x"),
        (301, b"text/plain"),
        (403, b"text/plain"),
        (500, b"text/plain"),
        (502, b"text/html"),
        (204, b"text/plain"),
    ],
)
def test_an_answer_that_is_none_of_ours_is_not_shown(status: int, content_type: bytes) -> None:
    assert shown(response(status, (b"content-type", content_type))) == Deny("U104", 502, ours=False)


@pytest.mark.parametrize("status", [400, 401, 404, 429, 502, 503])
def test_the_brokers_refusals_are_passed_on_as_text(status: int) -> None:
    relayed = shown(response(status, (b"content-type", b"text/plain")))
    assert relayed == Answered(status, ((b"Content-Type", b"text/plain"),), close=status == 400)


@pytest.mark.parametrize(
    ("value", "kept"),
    [(b"7", True), (b"1234567", False), (b"Wed, 21 Oct 2099 07:28:00 GMT", False), (b"", False)],
)
def test_retry_after_is_kept_as_a_small_number(value: bytes, kept: bool) -> None:
    head = response(429, (b"content-type", b"text/plain"), (b"retry-after", value))
    relayed = shown(head)
    assert isinstance(relayed, Answered)
    assert ((b"Retry-After", value) in relayed.headers) == kept


def test_git_is_not_asked_for_a_password_it_cannot_have() -> None:
    head = response(401, (b"content-type", b"text/plain"))
    relayed = shown(head, Tier.UNTRUSTED)
    assert isinstance(relayed, Answered)
    assert relayed.status == 502


@given(st.binary(max_size=40))
def test_no_authorization_makes_the_reader_fail(value: bytes) -> None:
    token_in(value)
    token_in(b"Basic " + value)


@given(
    st.sampled_from(["GET", "POST", "PUT", "OPTIONS"]),
    st.text(st.characters(codec="ascii", min_codepoint=33, max_codepoint=126), max_size=60),
)
def test_every_request_that_can_be_read_is_decided(method: str, path: str) -> None:
    raw = f"{method} /{path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    try:
        request = RequestReader().feed(raw)
    except Malformed:
        return
    assert request is not None
    assert isinstance(helper(request), Allow | Deny | Challenge)


def test_a_token_is_not_shown_with_what_was_asked() -> None:
    """Whatever prints an exchange prints its request too."""
    request = info_refs("hub.example/acme/app.git", basic("good"))
    asked = GIT.classify(request, at(Tier.HELPER))
    assert request.header(b"authorization") is not None
    assert base64.b64encode(b"gitmoat:good").decode() not in repr(asked)

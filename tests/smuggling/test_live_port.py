"""Every vector from inside a real sandbox, to both ports: the upstream hears of none of them."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from attrs import evolve, frozen

from tests.fakes.vectors import ADDED, Spelling, Vector, answers, refused, status_of
from tests.smuggling.raw_probe import ASK_TOKEN, PORTS, exchange, text
from tests.stage.boxes import Box
from tests.stage.gitmoat import Gitmoat
from tests.stage.repositories import refs

pytestmark = pytest.mark.root

SERVED = b"# service=git-upload-pack"
# The head of a fetch goes upstream before its body is known to be malformed.
FETCHES = ("gzip body that is not one member", "gzip bomb")


@frozen
class Sent:
    vector: Vector
    heard: bytes
    closed: bool


@pytest.fixture(scope="module")
def with_token(box: Box, spelling: Spelling) -> Spelling:
    """As the helper uid spells it, with the token that the credential socket gives."""
    path = f"{spelling.place.removeprefix('/')}play/one.git"
    answer = box.python(ASK_TOKEN, path, as_helper=True)
    pair = text(f"{answer['username']}:{answer['password']}".encode())
    return evolve(spelling, envelope=f"Authorization: Basic {pair}\r\n")


@pytest.fixture(scope="module", params=PORTS)
def sent(
    request: pytest.FixtureRequest,
    box: Box,
    raw_stage: Gitmoat,
    spelling: Spelling,
    with_token: Spelling,
) -> tuple[list[Sent], list[str]]:
    """All vectors, each with a request behind it that would be served; and upstream's log."""
    before = len(raw_stage.upstream.log())
    spelt = with_token if request.param == "helper" else spelling
    asked: list[dict[str, Any]] = [
        {"say": [text(spelt.bytes_of(each.raw) + spelt.allowed)], "until": text(SERVED)}
        for each in refused()
    ]
    told = exchange(box, *asked, tier=request.param)
    log = [entry.request for entry in raw_stage.upstream.log()[before:]]
    outcome = [
        Sent(vector, base64.b64decode(one["heard"]), one["closed"])
        for vector, one in zip(refused(), told, strict=True)
    ]
    return outcome, log


@pytest.mark.parametrize("form", dict.fromkeys(each.form for each in refused()))
def test_form_is_refused_at_the_port(sent: tuple[list[Sent], list[str]], form: str) -> None:
    for one in (each for each in sent[0] if each.vector.form == form):
        assert one.heard, (one.vector.id, one.closed)
        first, *more = answers(one.heard)
        assert status_of(first) in one.vector.status, one.vector.id
        assert one.vector.code.encode() in first, one.vector.id
        assert one.closed == one.vector.closes, one.vector.id
        assert len(more) == (0 if one.vector.closes else 1), one.vector.id


def test_the_upstream_saw_only_what_was_allowed(
    sent: tuple[list[Sent], list[str]], raw_stage: Gitmoat
) -> None:
    served = sum(not each.closes for each in refused())
    allowed = "GET /play/one.git/info/refs?service=git-upload-pack HTTP/1.1"
    gets = [request for request in sent[1] if request.startswith("GET ")]
    assert gets == [allowed] * served
    others = set(sent[1]) - set(gets)
    assert others <= {"POST /play/one.git/git-upload-pack HTTP/1.1"}
    assert refs(raw_stage, "play/one") == {}


def test_what_a_sandbox_claims_of_itself_decides_nothing(
    box: Box, raw_stage: Gitmoat, spelling: Spelling
) -> None:
    """A tier, a number, a credential or an address in its own headers."""
    claims = b"\r\n".join([*ADDED, b"Connection: close", b"", b""])
    secret = evolve(spelling, app="x-secret")
    before = len(raw_stage.upstream.log())
    asked = [{"say": [text(each.bytes_of("<GET>") + claims)]} for each in (spelling, secret)]
    own, other = (base64.b64decode(one["heard"]) for one in exchange(box, *asked))
    assert own.startswith(b"HTTP/1.1 200 ") and SERVED in own
    assert other.startswith(b"HTTP/1.1 404 ") and b"G101" in other
    assert b"0000000000000000" not in other  # the number that it claimed
    assert [entry.status for entry in raw_stage.upstream.log()[before:]] == [200]


def fetch_request(spelling: Spelling, more: str = "") -> bytes:
    """Protocol 2's list of refs, without its body."""
    return spelling.bytes_of(f"<POST>Git-Protocol: version=2\r\n{more}")


BODY = b"0014command=ls-refs\n0000"


def test_a_body_that_is_only_sent_when_asked_for(box: Box, spelling: Spelling) -> None:
    head = fetch_request(spelling, f"Expect: 100-continue\r\nContent-Length: {len(BODY)}\r\n\r\n")
    wait = {
        "say": [text(head), text(BODY)],
        "between": text(b"100 Continue"),
        "until": text(b"0\r\n\r\n"),
    }
    (one,) = exchange(box, wait)
    heard = base64.b64decode(one["heard"])
    assert heard.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")


def test_a_body_that_is_refused_is_not_asked_for(box: Box, spelling: Spelling) -> None:
    head = Spelling(spelling.place, "play", "../one").bytes_of(
        "<POST>Expect: 100-continue\r\nContent-Length: 4\r\n\r\n"
    )
    (one,) = exchange(box, {"say": [text(head)], "until": text(b"request id")})
    heard = base64.b64decode(one["heard"])
    assert heard.startswith(b"HTTP/1.1 404 ") and b"100 Continue" not in heard
    assert b"Connection: close" in heard


def test_a_client_that_has_closed_its_half_has_left_and_holds_nothing(
    box: Box, spelling: Spelling
) -> None:
    """It may have its answer before its end is seen, but whole or not at all."""
    requests = [
        spelling.allowed,
        fetch_request(spelling, f"Content-Length: {len(BODY)}\r\n\r\n") + BODY,
        fetch_request(spelling, "Transfer-Encoding: chunked\r\n\r\n")
        + b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY),
    ]
    told = exchange(box, *({"say": [text(each)], "half_close": True} for each in requests * 3))
    for one in told:
        heard = base64.b64decode(one["heard"])
        whole = heard.startswith(b"HTTP/1.1 200 OK\r\n") and heard.endswith(b"\r\n0\r\n\r\n")
        assert whole or not heard
        assert one["closed"]
    (after,) = exchange(box, {"say": [text(spelling.allowed)], "until": text(b"0\r\n\r\n")})
    assert base64.b64decode(after["heard"]).startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_client_that_closes_in_the_middle_of_its_request_gets_none(
    box: Box, spelling: Spelling
) -> None:
    cut = [spelling.allowed[:-2], fetch_request(spelling, "Content-Length: 100\r\n\r\n") + BODY]
    told = exchange(box, *({"say": [text(each)], "half_close": True} for each in cut))
    assert [(one["heard"], one["closed"]) for one in told] == [("", True)] * 2


def test_one_connection_serves_many_requests_also_when_they_come_at_once(
    box: Box, raw_stage: Gitmoat, spelling: Spelling
) -> None:
    before = len(raw_stage.upstream.log())
    close = spelling.bytes_of("<GET>Connection: close\r\n\r\n")
    (one,) = exchange(box, {"say": [text(spelling.allowed * 20 + close)]})
    heard = base64.b64decode(one["heard"])
    assert [status_of(each) for each in answers(heard)] == [200] * 21 and one["closed"]
    assert len(raw_stage.upstream.log()) - before == 21

"""Every vector from inside a real sandbox, to port 419: the upstream hears of none of them."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from attrs import frozen

from hostctl.demo_stage import Stage
from tests.fakes.vectors import Spelling, Vector, answers, refused, status_of
from tests.live.boxes import Box
from tests.live.conftest import PLAY, box_maker, opened
from tests.live.upstream_repositories import commit_upstream, make_empty, refs
from tests.smuggling.raw_probe import PROBE

pytestmark = pytest.mark.live

SERVED = b"# service=git-upload-pack"
# The head of a fetch goes upstream before its body is known to be malformed.
FETCHES = ("gzip body that is not one member", "gzip bomb")


@frozen
class Sent:
    vector: Vector
    heard: bytes
    closed: bool


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with opened() as made:
        (made.paths.policies / "play.toml").write_text(PLAY)
        make_empty(made, "play/one")
        yield made


@pytest.fixture(scope="module")
def box(stage: Stage) -> Iterator[Box]:
    with box_maker(stage) as make:
        yield make("--policy", "play", repo=None)


@pytest.fixture(scope="module")
def spelling(stage: Stage) -> Spelling:
    return Spelling(f"/localhost:{stage.upstream.port}/", "play", "one")


def exchange(box: Box, *exchanges: dict[str, Any]) -> list[dict[str, Any]]:
    """Raw conversations with port 419; see raw_probe."""
    found: list[dict[str, Any]] = box.python(PROBE, {"port": 419, "exchanges": list(exchanges)})
    return found


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.fixture(scope="module")
def sent(box: Box, stage: Stage, spelling: Spelling) -> tuple[list[Sent], list[str]]:
    """All vectors, each with a request behind it that would be served; and upstream's log."""
    before = len(stage.upstream.log())
    asked: list[dict[str, Any]] = [
        {"say": [text(spelling.bytes_of(each.raw) + spelling.allowed)], "until": text(SERVED)}
        for each in refused()
    ]
    told = exchange(box, *asked)
    log = [entry.request for entry in stage.upstream.log()[before:]]
    outcome = [
        Sent(vector, base64.b64decode(one["heard"]), one["closed"])
        for vector, one in zip(refused(), told, strict=True)
    ]
    return outcome, log


@pytest.mark.parametrize("form", dict.fromkeys(each.form for each in refused()))
def test_form_is_refused_at_the_port(sent: tuple[list[Sent], list[str]], form: str) -> None:
    for one in (each for each in sent[0] if each.vector.form == form):
        first, *more = answers(one.heard)
        assert status_of(first) in one.vector.status, one.vector.id
        assert one.vector.code.encode() in first, one.vector.id
        assert one.closed == one.vector.closes, one.vector.id
        assert len(more) == (0 if one.vector.closes else 1), one.vector.id


def test_the_upstream_saw_only_what_was_allowed(
    sent: tuple[list[Sent], list[str]], stage: Stage
) -> None:
    served = sum(not each.closes for each in refused())
    allowed = "GET /play/one.git/info/refs?service=git-upload-pack HTTP/1.1"
    gets = [request for request in sent[1] if request.startswith("GET ")]
    assert gets == [allowed] * served
    others = set(sent[1]) - set(gets)
    assert others <= {"POST /play/one.git/git-upload-pack HTTP/1.1"}
    assert refs(stage, "play/one") == {}


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


def test_a_client_that_has_closed_its_half_still_gets_its_answer(
    box: Box, spelling: Spelling
) -> None:
    requests = [
        spelling.allowed,
        fetch_request(spelling, f"Content-Length: {len(BODY)}\r\n\r\n") + BODY,
        fetch_request(spelling, "Transfer-Encoding: chunked\r\n\r\n")
        + b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY),
    ]
    told = exchange(box, *({"say": [text(each)], "half_close": True} for each in requests))
    for one in told:
        heard = base64.b64decode(one["heard"])
        assert heard.startswith(b"HTTP/1.1 200 OK\r\n") and heard.endswith(b"\r\n0\r\n\r\n")
        assert one["closed"]


def test_a_client_that_closes_in_the_middle_of_its_request_gets_none(
    box: Box, spelling: Spelling
) -> None:
    cut = [spelling.allowed[:-2], fetch_request(spelling, "Content-Length: 100\r\n\r\n") + BODY]
    told = exchange(box, *({"say": [text(each)], "half_close": True} for each in cut))
    assert [(one["heard"], one["closed"]) for one in told] == [("", True)] * 2


def test_one_connection_serves_many_requests_also_when_they_come_at_once(
    box: Box, stage: Stage, spelling: Spelling
) -> None:
    commit_upstream(stage, "refs/heads/main", "x", "play/one") if refs(stage, "play/one") else None
    before = len(stage.upstream.log())
    close = spelling.bytes_of("<GET>Connection: close\r\n\r\n")
    (one,) = exchange(box, {"say": [text(spelling.allowed * 20 + close)]})
    heard = base64.b64decode(one["heard"])
    assert [status_of(each) for each in answers(heard)] == [200] * 21 and one["closed"]
    assert len(stage.upstream.log()) - before == 21

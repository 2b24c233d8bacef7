"""Refusals have the shapes of "What git shows"."""

import json

import pytest

from broker.exchange.refusals import answer_probe, lfs_reply, refuse, refuse_commands
from gitmoat.codes import CODES
from gitmoat.wire.git.pktline import FLUSH, format_data
from gitmoat.wire.git.receivepack import Command, ObjectId, PushCommands, parse_ref
from gitmoat.wire.git.repository_name import parse_place, parse_repository
from gitmoat.wire.git.smarthttp import Advertise, Fetch, Push, Service

WHERE = (parse_place(b"up"), parse_repository(b"acme/app"))
ADVERTISE = Advertise(*WHERE, Service.UPLOAD_PACK, 2)
FETCH = Fetch(*WHERE, 2, False)
PUSH = Push(*WHERE, 0)
ID = "0123456789abcdef"
MAIN = Command(ObjectId("0" * 40), ObjectId("1" * 40), parse_ref(b"refs/heads/main"))


@pytest.mark.parametrize("code", sorted(CODES))
@pytest.mark.parametrize("request_", [ADVERTISE, FETCH, PUSH])
def test_no_refusal_has_a_status_that_git_hides(
    code: str, request_: Advertise | Fetch | Push
) -> None:
    reply = refuse(request_, code, ["line"], ID)
    assert reply.status in (200, 400, 401, 404, 429, 502, 503)
    assert dict(reply.headers)[b"Gitmoat-Request-Id"] == ID.encode()


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("G101", 404),
        ("G105", 404),
        ("S101", 401),
        ("S102", 503),
        ("U101", 502),
        ("U106", 502),
        ("B103", 503),
        ("G303", 429),
    ],
)
def test_an_advertisement_is_refused_in_plain_text(code: str, status: int) -> None:
    reply = refuse(ADVERTISE, code, ["one", "two"], ID)
    assert (reply.status, reply.body) == (status, b"one\ntwo\n")
    assert dict(reply.headers)[b"Content-Type"] == b"text/plain"


def test_a_rate_limit_says_when_to_come_back() -> None:
    assert dict(refuse(ADVERTISE, "G303", [], ID, 7).headers)[b"Retry-After"] == b"7"


def test_a_fetch_refused_at_the_post_is_an_error_line() -> None:
    reply = refuse(FETCH, "U101", ["one", "two"], ID)
    assert reply.status == 200
    assert dict(reply.headers)[b"Content-Type"] == b"application/x-git-upload-pack-result"
    assert reply.body == format_data(b"ERR one\ntwo")


@pytest.mark.parametrize("request_", [ADVERTISE, FETCH, PUSH])
def test_an_ended_session_is_401_with_text_everywhere(request_: Advertise | Fetch | Push) -> None:
    reply = refuse(request_, "S101", ["ended (S101)"], ID)
    assert (reply.status, reply.body) == (401, b"ended (S101)\n")
    assert dict(reply.headers)[b"Content-Type"] == b"text/plain"


def test_a_refused_push_reports_every_ref() -> None:
    commands = PushCommands((MAIN,), ("report-status", "side-band-64k"))
    reply = refuse_commands(PUSH, commands, ["why"], "not allowed", ID)
    assert reply.status == 200
    assert dict(reply.headers)[b"Content-Type"] == b"application/x-git-receive-pack-result"
    report = format_data(b"unpack ok\n") + format_data(b"ng refs/heads/main not allowed\n") + FLUSH
    assert reply.body == format_data(b"\x02why\n") + format_data(b"\x01" + report) + FLUSH


def test_the_probe_is_answered_200_and_empty() -> None:
    reply = answer_probe(PUSH, ID)
    assert (reply.status, reply.body) == (200, b"")


def test_lfs_gets_its_own_json() -> None:
    reply = lfs_reply(["no LFS (G102)"], ID)
    assert reply.status == 501
    assert json.loads(reply.body) == {"message": "no LFS (G102)"}

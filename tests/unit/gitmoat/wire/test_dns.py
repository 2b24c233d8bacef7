"""DNS questions and answers, with Twisted's own codec as the second reader."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.names import dns

from gitmoat.wire.dns import (
    AAAA,
    FORMERR,
    NOERROR,
    NXDOMAIN,
    A,
    answer,
    parse_query,
    refusal,
)
from gitmoat.wire.hostname import HostName
from gitmoat.wire.malformed import Malformed
from tests.fakes.policies import host_names

HEAD = b"\x12\x34\1\0\0\1\0\0\0\0\0\0"
QUESTION = b"\3web\7example\0\0\1\0\1"
OPT = b"\0\0\x29\x10\0\0\0\0\0\0\0"


def query(name: str, kind: int = A, edns: bool = False) -> bytes:
    options = {"ednsVersion": 0} if edns else {"ednsVersion": None}
    message = dns._EDNSMessage(id=7, recDes=True, **options)
    message.queries = [dns.Query(name, kind)]
    return bytes(message.toStr())


def test_a_plain_question_is_read() -> None:
    question = parse_query(HEAD + QUESTION)
    assert (question.id, question.name, question.type) == (0x1234, b"web.example", A)
    assert question.octets == QUESTION


@given(host_names, st.sampled_from([A, AAAA, 65, 255]), st.booleans())
def test_what_a_library_writes_is_read_alike(host: HostName, kind: int, edns: bool) -> None:
    question = parse_query(query(host.text, kind, edns))
    assert (question.name.decode(), question.type) == (host.text, kind)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        HEAD[:-1],
        HEAD,
        HEAD + QUESTION[:-1],
        HEAD + QUESTION + b"x",
        HEAD[:2] + b"\x81\0" + HEAD[4:] + QUESTION,  # an answer
        HEAD[:2] + b"\x28\0" + HEAD[4:] + QUESTION,  # an update
        HEAD[:4] + b"\0\2" + HEAD[6:] + QUESTION * 2,
        HEAD[:4] + b"\0\0" + HEAD[6:],
        HEAD[:6] + b"\0\1" + HEAD[8:] + QUESTION,
        HEAD + b"\xc0\x0c\0\1\0\1",  # compressed: it points to itself
        HEAD + b"\3a.b\0\0\1\0\1",  # one label that looks like two
        HEAD + b"\x40" + b"a" * 64 + b"\0\0\1\0\1",
        HEAD + b"".join(b"\x3f" + b"a" * 63 for _ in range(5)) + b"\0\0\1\0\1",
        HEAD + b"\3web\7example\0\0\1\0\3",  # class CHAOS
        HEAD[:-1] + b"\1" + QUESTION,
        HEAD[:-1] + b"\1" + QUESTION + OPT[:-1],
        HEAD[:-1] + b"\1" + QUESTION + OPT + b"x",
        HEAD[:-1] + b"\1" + QUESTION + b"\0\0\1" + OPT[3:],
    ],
)
def test_what_is_not_one_plain_question_is_refused(data: bytes) -> None:
    with pytest.raises(Malformed):
        parse_query(data)


@given(st.binary(max_size=80))
def test_any_octets_are_a_question_or_refused(tail: bytes) -> None:
    for data in (tail, HEAD + tail, HEAD[:-1] + b"\1" + QUESTION + tail):
        try:
            question = parse_query(data)
        except Malformed:
            continue
        assert data[12:].startswith(question.octets)


@given(host_names)
def test_an_answer_says_what_a_library_understands(host: HostName) -> None:
    question = parse_query(query(host.text))
    message = dns.Message()
    message.fromStr(answer(question, NOERROR, b"\xc6\x12\0\5", 5))
    assert message.answer and message.id == 7 and message.rCode == dns.OK
    record: Any = message.answers[0]
    assert (len(message.answers), record.name.name.decode(), record.ttl) == (1, host.text, 5)
    assert record.payload.dottedQuad() == "198.18.0.5"


def test_a_name_that_does_not_exist_has_no_answer() -> None:
    message = dns.Message()
    message.fromStr(answer(parse_query(query("a.example")), NXDOMAIN))
    assert (message.rCode, message.answers, message.authority) == (dns.ENAME, [], [])


def test_a_message_that_is_no_question_is_told_so_unless_it_is_an_answer() -> None:
    assert refusal(HEAD + b"junk", FORMERR) == b"\x12\x34\x80\1" + bytes(8)
    assert refusal(HEAD[:2] + b"\x80\0" + HEAD[4:], FORMERR) is None
    assert refusal(b"short", FORMERR) is None

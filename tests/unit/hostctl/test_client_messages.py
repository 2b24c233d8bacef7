"""Answers of daemons: lines, then one of a closed set of messages or a failure."""

from __future__ import annotations

import json
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.api.admin_socket import _LINE
from hostctl.control_client import (
    REQUEST_LIMITS,
    Connection,
    Done,
    Event,
    Progress,
    items_of,
    line_of,
    parse_message,
)
from hostctl.failure import Failure
from hostd.api.admin import _LINE_LIMIT


def test_the_kinds_of_message() -> None:
    assert parse_message(b'{"progress": "cloning"}') == Progress("cloning")
    started = {"event": "started", "sandbox": "5"}
    assert parse_message(json.dumps(started).encode()) == Event("started", started)
    assert parse_message(b'{"ok": true, "exit": 3}') == Done({"exit": 3})


def test_an_error_is_raised() -> None:
    with pytest.raises(Failure) as caught:
        parse_message(b'{"error": {"code": "R103", "what": "none", "exit": 4}}')
    assert (caught.value.code, caught.value.exit_code) == ("R103", 4)


@given(st.binary())
def test_any_line_is_a_message_or_a_failure(line: bytes) -> None:
    try:
        message = parse_message(line)
    except Failure:
        return
    assert isinstance(message, Progress | Event | Done)


def test_progress_cannot_steer_the_terminal() -> None:
    message = parse_message(json.dumps({"progress": "a\x1b[2J\r\nb"}).encode())
    assert isinstance(message, Progress)
    assert message.text.isprintable()


def test_items_are_mappings_whatever_was_sent() -> None:
    assert items_of({"items": [{"a": 1}, 2, None]}) == [{"a": 1}]
    assert items_of({"items": "x"}) == items_of({}) == []


@given(st.text() | st.binary().map(lambda data: data.decode("utf-8", "surrogateescape")))
def test_a_request_is_one_line_and_says_the_same_whatever_is_in_it(text: str) -> None:
    line = line_of({"argv": [text]})
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert json.loads(line) == {"argv": [text]}


def test_text_is_not_longer_in_a_request_than_in_a_file() -> None:
    text = "\u00e9\N{EUROPEAN CASTLE}" * 1000
    assert len(line_of({"policy": text})) < len(text.encode()) + 20


def test_no_more_is_sent_than_a_daemon_reads() -> None:
    assert REQUEST_LIMITS == {"hostd": _LINE_LIMIT, "the broker": _LINE}
    ours, theirs = socket.socketpair()
    ours.settimeout(10)  # too much would wait for a reader
    with theirs, Connection(ours, "the broker") as connection:
        with pytest.raises(Failure) as caught:
            connection.send({"op": "x" * _LINE})
        assert (caught.value.code, caught.value.exit_code) == ("C105", 2)
        connection.send({"op": "ls"})
        assert theirs.recv(100) == b'{"op": "ls"}\n'

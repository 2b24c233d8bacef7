"""Answers of daemons: lines, then one of a closed set of messages or a failure."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostctl.client import Done, Event, LineReader, Progress, items_of, parse_message
from hostctl.failure import Failure


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


@given(st.lists(st.binary().filter(lambda line: b"\n" not in line)), st.data())
def test_any_chunking_gives_the_same_lines(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    reader, seen = LineReader(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        seen += reader.feed(stream[:size])
        stream = stream[size:]
    assert seen == lines


def test_a_line_without_an_end_is_bounded() -> None:
    reader = LineReader(limit=100)
    with pytest.raises(Failure):
        for _ in range(200):
            reader.feed(b"x")


def test_items_are_mappings_whatever_was_sent() -> None:
    assert items_of({"items": [{"a": 1}, 2, None]}) == [{"a": 1}]
    assert items_of({"items": "x"}) == items_of({}) == []

"""What a broker answers, sends and records does not change by itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fakes.reactor_tests import on_reactor
from tests.wire.broker.net.transcripts import CASES, FILE, Seen, seen

RECORDED: dict[str, Seen] = json.loads(FILE.read_text())


@pytest.mark.parametrize("name", CASES)
@on_reactor
async def test_answer_requests_and_audit_are_as_recorded(tmp_path: Path, name: str) -> None:
    from twisted.internet import reactor

    found = await seen(reactor, tmp_path, name)
    assert lines(found) == lines(RECORDED[name])
    assert found == RECORDED[name]


def lines(transcript: Seen) -> dict[str, list[str]]:
    """The same, so that a difference is shown with its line."""
    found = {}
    for name, value in transcript.items():
        texts = value if isinstance(value, list) else [str(value)]
        found[name] = [line for text in texts for line in text.splitlines()]
    return found


def test_every_transcript_is_of_a_request() -> None:
    assert list(RECORDED) == list(CASES)

"""The sidecar's wire does not change by itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.wire.sidecar.net.transcripts import FILE, REQUESTS, seen

RECORDED: dict[str, dict[str, str]] = json.loads(FILE.read_text())


@pytest.mark.parametrize("name", REQUESTS)
def test_client_and_broker_get_the_bytes_that_were_recorded(tmp_path: Path, name: str) -> None:
    found = seen(name, tmp_path)
    for end, text in RECORDED[name].items():
        assert found[end].splitlines() == text.splitlines(), end
    assert found == RECORDED[name]


def test_every_transcript_is_of_a_request() -> None:
    assert list(RECORDED) == list(REQUESTS)

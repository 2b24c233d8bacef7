"""Reports of a sidecar: one of a closed set, marked as reported, or refused."""

import json
from typing import Any

import pytest
from attrs import evolve

from audit.events import (
    CredentialGranted,
    CredentialRefused,
    GitRefusedReported,
    PeerRefusedReported,
)
from broker.reports import parse_report
from gitwire.errors import Malformed
from sidecar.reports import Event, Report, format_report


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"event": "peer-refused", "uid": 1, "code": "H101"}, PeerRefusedReported),
        ({"event": "credential-granted", "uid": 1, "repo": "h/a/b"}, CredentialGranted),
        ({"event": "credential-refused", "code": "H105"}, CredentialRefused),
        ({"event": "git-refused", "code": "G101", "req": "0" * 16}, GitRefusedReported),
    ],
)
def test_each_kind_becomes_its_event(fields: dict[str, Any], kind: type) -> None:
    event = parse_report(fields, "sb", "s")
    assert type(event) is kind
    found = event.fields()
    assert (found["sandbox"], found["session"], found["reported"]) == ("sb", "s", True)


@pytest.mark.parametrize("event", list(Event))
def test_every_kind_a_sidecar_sends_is_understood(event: Event) -> None:
    report = Report(event, uid=1, repo="h/a/b", code="G101", req="0" * 16)
    if event is Event.EGRESS_REFUSED:
        report = evolve(report, op="dns", to="a.example")
    parse_report(json.loads(format_report(report)), "sb", "s")


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"event": "other"},
        {"event": "peer-refused"},
        {"event": "peer-refused", "code": "Z999"},
        {"event": "peer-refused", "code": "H101", "uid": -1},
        {"event": "peer-refused", "code": "H101", "uid": "0"},
        {"event": "peer-refused", "code": "H101", "uid": True},
        {"event": "peer-refused", "code": "H101", "count": 1},
        {"event": "peer-refused", "code": "H101", "count": 2.0},
        {"event": "peer-refused", "code": "H101", "count": 10**9 + 1},
        {"event": "git-refused", "code": "G101", "req": "x"},
        {"event": "git-refused", "code": "G101", "repo": "x" * 601},
        {"event": "git-refused", "code": "G101", "repo": 5},
    ],
)
def test_anything_else_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        parse_report(fields, "sb", "s")

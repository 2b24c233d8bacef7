"""Reports of a sidecar: one of a closed set, marked as reported, or refused."""

import json
from typing import Any

import pytest

from broker.api.reported import recorded
from gitmoat.audit.events import (
    CredentialGranted,
    CredentialRefused,
    GitRefusedReported,
    PeerRefusedReported,
)
from gitmoat.messages.report import Event, Report, format_report, parse_report
from gitmoat.shape import Misshapen


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
    event = recorded(parse_report(json.dumps(fields).encode()), "sb", "s")
    assert type(event) is kind
    found = event.fields()
    assert (found["sandbox"], found["session"], found["reported"]) == ("sb", "s", True)


@pytest.mark.parametrize("event", list(Event))
def test_every_kind_a_sidecar_sends_is_understood(event: Event) -> None:
    more: dict[str, Any] = {"op": "dns", "to": "a.example"} if event is Event.EGRESS_REFUSED else {}
    report = Report(event=event, uid=1, repo="h/a/b", code="G101", req="0" * 16, **more)
    assert parse_report(format_report(report)) == report
    recorded(report, "sb", "s")


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
        {"event": "git-refused", "code": "G101", "more": 1},
        {"event": "egress-refused", "code": "E101", "to": "a.example:443"},
        {"event": "egress-refused", "code": "E101", "op": "raw"},
    ],
)
def test_anything_else_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(Misshapen):
        parse_report(json.dumps(fields).encode())

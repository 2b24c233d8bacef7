"""The admin socket's answers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.task import Clock

from broker.api.admin_socket import Admin
from broker.credentials.helper_link import HelperLink
from broker.errors import Misconfigured
from broker.sessions.store.interface import StoreUnavailable
from gitmoat.audit.chain import read_events
from gitmoat.audit.journal import Journal, open_journal
from gitmoat.fault import Fault


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = open_journal(tmp_path / "audit", "broker", lambda: 0.0)
    yield opened
    opened.close()


def admin(journal: Journal, **operations: Any) -> Admin:
    return Admin(0, operations, journal, HelperLink(Clock()))


def said(asked: Admin, line: bytes) -> dict[str, Any]:
    answer: Any = asked.answer(line, 0).result
    assert isinstance(answer, dict)
    return answer


def test_an_operation_gets_the_request_and_the_uid(journal: Journal) -> None:
    asked = admin(journal, ping=lambda fields, uid: {"got": fields["x"], "uid": uid})
    assert said(asked, b'{"op":"ping","x":5}') == {"ok": True, "got": 5, "uid": 0}


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"x",
        b"[]",
        b"5",
        b"null",
        b"{}",
        b'{"op":5}',
        b'{"op":"no"}',
        b'{"op":[]}',
        b"[" * 9999,
    ],
)
def test_what_is_not_understood_is_one_error(journal: Journal, line: bytes) -> None:
    answer = said(admin(journal), line)
    assert answer["error"]["code"] == "C105"
    assert set(answer["error"]) == {"code", "what", "why", "fix"}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Fault("R103", "there is no such session"), "R103"),
        (Misconfigured("f", "a.b", "is wrong", "mend it"), "B104"),
        (StoreUnavailable("disk I/O error"), "B103"),
    ],
)
def test_a_failure_is_an_answer(journal: Journal, error: Exception, code: str) -> None:
    def fail(fields: dict[str, Any], uid: int) -> dict[str, Any]:
        raise error

    answer = said(admin(journal, fail=fail), b'{"op":"fail"}')
    assert answer["error"]["code"] == code
    json.dumps(answer)


def test_only_the_owner_is_permitted_and_others_are_recorded(
    tmp_path: Path, journal: Journal
) -> None:
    asked = admin(journal)
    assert asked.permits(0) and not asked.permits(1000)
    (event,) = read_events(tmp_path / "audit")
    assert (event["event"], event["peer_uid"], event["code"]) == ("peer.refused", 1000, "C102")

from __future__ import annotations

from typing import Any

import pytest
from nacl.signing import SigningKey

from gitmoat.identity.keyfile import public_text
from gitmoat.identity.signed_report import ReportRefused, check_report, sign_report

KEY = SigningKey(bytes(range(32)))
REPORT = {"schema": "gitmoat.verify/1", "name": "bö", "probes": [{"ok": True}], "total": 1}


def test_a_signed_report_is_believed() -> None:
    signed = sign_report(REPORT, KEY)
    check_report(signed, public_text(KEY))
    assert {**signed, "signature": None} == {**REPORT, "signature": None}


@pytest.mark.parametrize(
    "change",
    [
        {"total": 2},
        {"probes": []},
        {"more": 1},
        {"signature": None},
        {"signature": "x"},
        {"signature": {"algorithm": "ed25519", "key": public_text(KEY), "value": "AA=="}},
        {"signature": {"algorithm": "ed25519", "key": public_text(KEY), "value": "?"}},
        {"signature": {"algorithm": "none", "key": public_text(KEY), "value": ""}},
    ],
)
def test_a_changed_report_is_not(change: dict[str, Any]) -> None:
    with pytest.raises(ReportRefused):
        check_report({**sign_report(REPORT, KEY), **change}, public_text(KEY))


def test_a_report_of_another_host_is_not() -> None:
    other = SigningKey(bytes(32))
    with pytest.raises(ReportRefused, match="another key"):
        check_report(sign_report(REPORT, other), public_text(KEY))


def test_the_stated_key_is_not_what_is_believed() -> None:
    """Whoever signs with a key of their own cannot put ours beside it."""
    signed = sign_report(REPORT, SigningKey(bytes(32)))
    signed["signature"]["key"] = public_text(KEY)
    with pytest.raises(ReportRefused, match="changed"):
        check_report(signed, public_text(KEY))

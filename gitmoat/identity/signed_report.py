"""A report that a host signs: canonical JSON and an Ed25519 signature inside it."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping
from typing import Any

from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

from gitmoat.identity.keyfile import KeyMalformed, parse_public, public_text

# The host key signs grants and TLS handshakes too; this prefix keeps the kinds apart.
_CONTEXT = b"gitmoat verify report 1\n"
_MEMBER = "signature"


class ReportRefused(Exception):
    """A report is not what its host signed."""


def sign_report(report: Mapping[str, Any], key: SigningKey) -> dict[str, Any]:
    """The report with the signature of everything else in it."""
    signature = key.sign(_CONTEXT + _canonical(report)).signature
    return {
        **report,
        _MEMBER: {
            "algorithm": "ed25519",
            "key": public_text(key),
            "value": b64encode(signature).decode("ascii"),
        },
    }


def check_report(report: Mapping[str, Any], key: str) -> None:
    """Raises unless the holder of this public key signed exactly this."""
    rest = {name: value for name, value in report.items() if name != _MEMBER}
    match report.get(_MEMBER):
        case {"algorithm": "ed25519", "key": str(stated), "value": str(value)}:
            pass
        case _:
            raise ReportRefused("the report is not signed")
    if stated != key:
        raise ReportRefused("the report is signed with another key")
    try:
        signature = b64decode(value, validate=True)
        VerifyKey(parse_public(key)).verify(_CONTEXT + _canonical(rest), signature)
    except (BadSignatureError, NotBase64, KeyMalformed, ValueError):
        raise ReportRefused("the report was changed after it was signed") from None


def _canonical(report: Mapping[str, Any]) -> bytes:
    text = json.dumps(report, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")

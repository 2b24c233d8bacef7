"""What a provider gives: a credential for one upstream request."""

from __future__ import annotations

import re
from typing import Protocol

from attrs import frozen

from broker.errors import Unavailable
from identity.secret import Secret

_USERNAME = re.compile(r"[!-9;-~]{1,128}")
_PASSWORD = re.compile(rb"[!-~]{1,16384}")


@frozen
class Credential:
    username: str
    password: Secret


class Provider(Protocol):
    def credential(self) -> Credential:
        """A fresh answer for one request; Unavailable (U105) when there is none."""


def is_username(text: str) -> bool:
    """Basic authentication (RFC 7617) has no way to carry a colon or a control character here."""
    return _USERNAME.fullmatch(text) is not None


def parse_password(raw: bytes) -> Secret | None:
    """One line of printable ASCII, as tokens are; None for anything else."""
    line = raw.removesuffix(b"\n").removesuffix(b"\r")  # files from another world end in CRLF
    return Secret(line) if _PASSWORD.fullmatch(line) else None


def unavailable(why: str, fix: str) -> Unavailable:
    return Unavailable("U105", "no credential is available for the git server", why, fix)

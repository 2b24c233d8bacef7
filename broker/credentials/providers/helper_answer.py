"""What a git credential helper is asked, and what it may answer (gitcredentials(7)). Pure."""

from __future__ import annotations

import re

from broker.config.values import is_username
from broker.credentials.providers.credential import Credential, parse_password

ANSWER_LIMIT = 64 * 1024
_LINES = 256
_KEY = re.compile(rb"[A-Za-z_]+(\[\])?")


def question(host: str) -> bytes:
    """For `get`; a helper is never told to store or to erase."""
    return f"protocol=https\nhost={host}\n\n".encode("ascii")


def read_answer(raw: bytes, host: str) -> Credential | str:
    """The credential, or what is wrong with the answer; nothing of it is quoted.

    Attributes we have no use for are left alone; one that speaks of another host is not.
    """
    lines = raw.split(b"\n\n")[0].removesuffix(b"\n").split(b"\n")
    if not raw.strip():
        return "has no credential for this server"
    if len(raw) > ANSWER_LIMIT or len(lines) > _LINES or b"\r" in raw or b"\0" in raw:
        return "gave an answer that git would not understand"
    found: dict[bytes, bytes] = {}
    for line in lines:
        key, equals, value = line.partition(b"=")
        if not equals or _KEY.fullmatch(key) is None:
            return "gave an answer that git would not understand"
        found[key] = value
    return _credential(found, host)


def _credential(found: dict[bytes, bytes], host: str) -> Credential | str:
    if found.get(b"quit") in (b"1", b"true"):
        return "told us to quit"
    about = found.get(b"protocol", b"https"), found.get(b"host", host.encode())
    if about != (b"https", host.encode()):
        return "answered for another server"
    username = found.get(b"username", b"").decode("ascii", "replace")
    password = parse_password(found.get(b"password", b""))
    if password is None or not is_username(username):
        return "has no credential for this server"
    expiry = found.get(b"password_expiry_utc", b"")
    expires = int(expiry) if expiry.isdigit() and len(expiry) < 12 else None
    return Credential(username, password, "whatever the owner's own login may do", expires)

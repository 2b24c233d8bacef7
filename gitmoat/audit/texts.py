"""How text stands in a record: one capped run of printable ASCII, and a hash where some is missing.

Names that a policy decided on (refs, repositories, hosts) are facts and stand as they are: a
sandbox that could have a part of a name left out could push two refs that look like one. Words,
which an upstream or a program put together, lose what has the shape of a credential.
"""

from __future__ import annotations

import hashlib
import json

from gitmoat.audit.redaction import LONGEST, redacted

TEXT_LIMIT = 512
DIGITS = 32  # with 64 bits two texts of one hash can be looked for, and found


def name(text: str, limit: int = TEXT_LIMIT) -> str:
    """A fact. Everything that is not printable ASCII is escaped, `\\` too."""
    if len(text) <= limit and text.isascii() and text.isprintable() and "\\" not in text:
        return text  # nearly every name, and what is below changes nothing of it
    return _capped(text[: limit + 1], limit)


def plain(text: str, limit: int = TEXT_LIMIT) -> str:
    """Words: what looks like a credential is left out, before anything is cut off."""
    return _capped(redacted(text[: limit + LONGEST]), limit)


def _capped(clean: str, limit: int) -> str:
    shown = clean[:limit].encode("unicode_escape").decode("ascii")
    return shown if len(clean) <= limit >= len(shown) else shown[:limit] + "..."


def octets(text: str) -> int:
    """At least what a name takes in a record, where `\\` is written twice."""
    return len(text) if text.isascii() else len(json.dumps(name(text)))


def digest(text: str) -> str:
    """By which two texts are told apart of which the same is shown."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS]


def is_whole(text: str, shown: str) -> bool:
    """Whether nothing was cut off or left out; what is escaped is there."""
    return shown == text or shown == text.encode("unicode_escape").decode("ascii")

"""What a sidecar reports to the broker for the audit: one of a closed set, small, typed.

The broker believes none of it: a sidecar that was taken over may send anything. It is recorded as
reported, and only in these shapes.
"""

from __future__ import annotations

import json
import re
from enum import Enum
from typing import Final

from attrs import frozen

from gitmoat.codes import CODES
from gitmoat.shape import (
    choice,
    key,
    member,
    number,
    optional,
    parsed,
    read,
    read_json,
    text,
    write,
)

MOST: Final = 10**9  # of the same, put together into one report
REPORT_LIMIT: Final = 4096
_LARGEST: Final = 2048
_REQUEST_ID: Final = re.compile(r"[0-9a-f]{16}")


class Event(Enum):
    PEER_REFUSED = "peer-refused"
    CREDENTIAL_GRANTED = "credential-granted"
    CREDENTIAL_REFUSED = "credential-refused"
    GIT_REFUSED = "git-refused"
    EGRESS_REFUSED = "egress-refused"


def _request_id(value: str) -> str:
    if _REQUEST_ID.fullmatch(value) is None:
        raise ValueError("must be a request id")
    return value


@frozen
class Report:
    """`repo` and `to` are canonical or None: nothing the sandbox wrote freely goes in here.

    Of one that was taken over they may be anything; the audit escapes what cannot be printed.
    """

    event: Event = key(member(Event))
    uid: int | None = key(optional(number(0, 2**32 - 1)), None)
    repo: str | None = key(optional(text(600, printable=False)), None)
    code: str | None = key(optional(choice(*CODES)), None)
    req: str | None = key(optional(parsed(_request_id, str)), None)
    count: int = key(number(2, MOST), 1)  # how many of the same were put together
    op: str | None = key(optional(choice("tunnel", "http", "dns")), None)
    to: str | None = key(optional(text(300, printable=False)), None)

    def __attrs_post_init__(self) -> None:
        if self.code is None and self.event is not Event.CREDENTIAL_GRANTED:
            raise ValueError("code is missing")
        if self.op is None and self.event is Event.EGRESS_REFUSED:
            raise ValueError("op is missing")


def parse_report(data: bytes) -> Report:
    return read(Report, read_json(data, REPORT_LIMIT))


def format_report(report: Report) -> bytes:
    data = json.dumps(write(report), separators=(",", ":")).encode("ascii")
    if len(data) > _LARGEST:
        raise ValueError("a report is made of short values")
    return data

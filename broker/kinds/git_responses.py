"""What an upstream's answer means. Pure: a head becomes a code of ours, or may pass."""

from __future__ import annotations

from broker.upstream.limiter import asks_for_rest
from gitmoat.wire.git.smarthttp import GitRequest, response_type
from gitmoat.wire.http.framing import Length
from gitmoat.wire.http.heads import ResponseHead

_KNOWN = {401: "U102", 403: "U109", 404: "G101"}


def judge(head: ResponseHead, request: GitRequest, limit: int) -> str | None:
    """None for the one kind of answer that is passed on; never a word of the upstream's own."""
    if head.status != 200:
        return "U108" if asks_for_rest(head) else _refusal(head.status)
    encoded = head.header(b"content-encoding") is not None
    if encoded or head.header(b"content-type") != response_type(request):
        return "U104"
    if isinstance(head.framing, Length) and head.framing.octets > limit:
        return "G302"
    return None


def _refusal(status: int) -> str:
    if status in _KNOWN:
        return _KNOWN[status]
    if status >= 500:
        return "U110"
    return "U103" if 300 <= status < 400 else "U104"

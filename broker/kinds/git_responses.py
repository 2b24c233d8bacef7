"""What an upstream's answer means. Pure: a head becomes a code of ours, or may pass."""

from __future__ import annotations

from broker.upstream.limiter import asks_for_rest
from gitmoat.wire.git.repository_name import Place, RepositoryPath
from gitmoat.wire.git.smarthttp import GitRequest, named_by, response_type
from gitmoat.wire.http.framing import Length
from gitmoat.wire.http.heads import ResponseHead
from gitmoat.wire.malformed import Malformed
from netpolicy.upstreams import Upstream, UpstreamTable

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


def moved_to(
    head: ResponseHead, request: GitRequest, upstream: Upstream
) -> tuple[RepositoryPath, bool] | None:
    """The name by which a redirect says that the same server has the repository, and whether
    `.git` is behind it. It is read to be told, never followed."""
    try:
        location = head.header(b"location") or b""
        if location.startswith(b"https://"):
            host, slash, path = location.removeprefix(b"https://").partition(b"/")
            if UpstreamTable((upstream,)).by_place(Place(host.decode("ascii"))) is None:
                return None
            location = slash + path
    except (Malformed, UnicodeDecodeError):
        return None
    return named_by(location, request)


def _refusal(status: int) -> str:
    if status in _KNOWN:
        return _KNOWN[status]
    if status >= 500:
        return "U110"
    return "U103" if 300 <= status < 400 else "U104"

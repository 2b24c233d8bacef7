"""A place that a package manager fetches from, and which file says so."""

from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import urlsplit

from attrs import frozen

from gitmoat.wire.hostname import Destination, parse_host
from gitmoat.wire.malformed import Malformed
from netpolicy.patterns.matchers import BadPattern, HostPattern
from netpolicy.policy import Scheme
from netpolicy.presets.index_url import parse_index_url

Files = Mapping[str, str]  # path -> text, in the order in which the tool reads them
_SCHEMES: dict[str, tuple[Scheme, int]] = {"https": ("tls", 443), "http": ("http", 80)}
_LOCAL = ("file", "copy", "cdrom", "")


@frozen
class Place:
    to: Destination
    scheme: Scheme
    source: str


@frozen
class Answer:
    places: tuple[Place, ...] = ()
    notes: tuple[str, ...] = ()
    index: str = ""


def answer(
    urls: Iterable[tuple[str, str]],
    notes: Iterable[str] = (),
    index: Sequence[tuple[str, str]] = (),
) -> Answer:
    """`urls` are pairs of a URL and the file it is from; the last one of `index` is what the tool
    in the sandbox is to ask."""
    places: dict[Place, None] = {}
    said = list(notes)
    for url, source in urls:
        place = _place(url, source)
        if isinstance(place, Place):
            places[place] = None
        elif place:
            said.append(f"{source}: {place}")
    configured = ""
    for url, source in index[-1:]:
        if not isinstance(_place(url, source), Place):
            continue
        try:
            configured = parse_index_url(url)
        except BadPattern as problem:
            said.append(f"{source}: not configured in sandboxes: the URL {problem.what}")
    return Answer(tuple(places), tuple(dict.fromkeys(said)), configured)


def _place(url: str, source: str) -> Place | str:
    """The place, or why it is none; nothing at all for what is on this machine.

    Only host and port are taken: a URL may carry a password.
    """
    if "$" in url:
        return "a variable in a URL is not resolved; name the host in an [[egress]] rule"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "a URL that cannot be parsed"
    if parts.scheme in _LOCAL:
        return ""
    if parts.scheme not in _SCHEMES:
        return f"{parts.scheme[:20]} is not supported; sandboxes reach hosts by https and http"
    scheme, usual = _SCHEMES[parts.scheme]
    try:
        host = parse_host((parts.hostname or "").encode())
        HostPattern(host.text)
        return Place(Destination(host, port or usual), scheme, source)
    except (Malformed, BadPattern):
        return "a URL without a host name; addresses are never reached"

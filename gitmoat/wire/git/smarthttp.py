"""The closed list of smart-HTTP requests (gitprotocol-http), read and written from constants."""

import re
from enum import Enum
from typing import Final, assert_never

from attrs import frozen

from gitmoat.wire.git.repository_name import (
    Place,
    RepositoryPath,
    ends_in_git,
    parse_place,
    parse_repository,
)
from gitmoat.wire.http.heads import Length, NoBody, RequestHead
from gitmoat.wire.malformed import Malformed


class Service(Enum):
    UPLOAD_PACK = "git-upload-pack"
    RECEIVE_PACK = "git-receive-pack"

    def __init__(self, text: str) -> None:
        self.octets: Final = text.encode("ascii")  # as it stands in targets and media types


@frozen
class Advertise:
    """GET info/refs: what refs and capabilities there are.

    `dot_git` in this and the others: the name was written with `.git` behind it. Policy knows no
    difference, servers may.
    """

    place: Place
    repository: RepositoryPath
    service: Service
    protocol: int
    dot_git: bool = True


@frozen
class Fetch:
    """POST git-upload-pack. `gzip`: the body is compressed and stays so."""

    place: Place
    repository: RepositoryPath
    protocol: int
    gzip: bool
    dot_git: bool = True


@frozen
class Push:
    """POST git-receive-pack."""

    place: Place
    repository: RepositoryPath
    protocol: int
    dot_git: bool = True


@frozen
class LfsRequest:
    """Any request below info/lfs: known, so that it can be refused in LFS's own JSON."""

    place: Place
    repository: RepositoryPath


@frozen
class Unserved:
    """Well-formed and none of ours: dumb HTTP, archives, other endpoints and methods."""

    what: str


GitRequest = Advertise | Fetch | Push

_INFO_REFS: Final = b"/info/refs"
_LFS = re.compile(rb"/info/lfs(?:/|\Z)")
_SERVICES: Final = {b"service=" + each.octets: each for each in Service}
_POSTS: Final = {b"/" + each.octets: each for each in Service}
# gitprotocol-http: the header is a colon-separated list of keys, of which git sends one. git's
# protocol.c takes the highest version of several; so two hops could disagree about a list.
_PROTOCOLS: Final = {None: 0, b"version=0": 0, b"version=1": 1, b"version=2": 2}


def classify(head: RequestHead, prefix: bytes) -> GitRequest | LfsRequest | Unserved:
    """Make a request of the closed list out of `head`, or refuse it. Total: nothing passes by."""
    path, question, query = head.target.partition(b"?")
    if not path.startswith(prefix):
        return Unserved("path is not below the prefix")
    place, slash, rest = path.removeprefix(prefix).partition(b"/")
    if not slash:
        return Unserved("path names no repository")
    # Servers that merge slashes would find another repository (RFC 3986, 3.3 keeps them apart).
    if b"//" in path:
        raise Malformed("path has an empty segment", 404)
    if rest.endswith(_INFO_REFS):
        return _classify_info_refs(head, place, rest, query if question else None)
    for ending, service in _POSTS.items():
        if rest.endswith(ending):
            raw = rest.removesuffix(ending)
            return _classify_post(head, place, raw, service, bool(question))
    if lfs := _LFS.search(rest):
        return LfsRequest(parse_place(place), parse_repository(rest[: lfs.start()]))
    return Unserved("not an endpoint of smart HTTP")


def _classify_info_refs(
    head: RequestHead, place: bytes, rest: bytes, query: bytes | None
) -> Advertise | Unserved:
    if query is None:
        return Unserved("dumb HTTP")
    if head.method != b"GET":
        return Unserved("method is not GET")
    if query == b"service=git-upload-archive":
        return Unserved("archives")
    # gitprotocol-http, "Smart Clients": `service=` and nothing else. git's http-backend.c reads the
    # last `service` of several, others the first.
    if query not in _SERVICES:
        raise Malformed("query is not one service")
    if not isinstance(head.framing, NoBody):
        raise Malformed("GET with a body")
    service = _SERVICES[query]
    raw = rest.removesuffix(_INFO_REFS)
    where, repository, protocol = (
        parse_place(place),
        parse_repository(raw),
        _protocol(head, service),
    )
    return Advertise(where, repository, service, protocol, ends_in_git(raw))


def _classify_post(
    head: RequestHead, place: bytes, raw: bytes, service: Service, query: bool
) -> Fetch | Push | Unserved:
    if head.method != b"POST":
        return Unserved("method is not POST")
    if query:
        raise Malformed("query on a POST")
    if head.framing in (NoBody(), Length(0)):
        raise Malformed("POST without a body")
    if head.header(b"content-type") != _media_type(service, b"request"):
        raise Malformed("content type is not the service's", 415)
    where, repository = parse_place(place), parse_repository(raw)
    gzip, protocol = _gzip(head, service), _protocol(head, service)
    if service is Service.RECEIVE_PACK:
        return Push(where, repository, protocol, ends_in_git(raw))
    return Fetch(where, repository, protocol, gzip, ends_in_git(raw))


def _gzip(head: RequestHead, service: Service) -> bool:
    """gitprotocol-http has both compressed; git's remote-curl.c compresses what it asks for, never
    a pack. A compressed push is refused, because its commands are read here."""
    encoding = head.header(b"content-encoding")
    if encoding is None:
        return False
    if encoding != b"gzip" or service is Service.RECEIVE_PACK:
        raise Malformed("content encoding is not served", 415)
    return True


def _protocol(head: RequestHead, service: Service) -> int:
    value = head.header(b"git-protocol")
    if value not in _PROTOCOLS:
        raise Malformed("Git-Protocol is not one known version")
    protocol = _PROTOCOLS[value]
    # There is no push in protocol v2: receive-pack answers it as v0.
    return 0 if protocol == 2 and service is Service.RECEIVE_PACK else protocol


def target_of(request: GitRequest, prefix: bytes, place: bytes) -> bytes:
    """The request target to send: `prefix` ends in a slash, `place` is empty for an upstream."""
    where = place + b"/" if place else b""
    repository = request.repository.text.encode("ascii")
    suffix = b".git" if request.dot_git else b""
    return prefix + where + repository + suffix + _endpoint(request)


def named_by(target: bytes, request: GitRequest) -> tuple[RepositoryPath, bool] | None:
    """The repository that `target` asks the same of as `request` does its own, and whether `.git`
    stands behind it there; None when it asks for anything else."""
    endpoint = _endpoint(request)
    raw = target.removeprefix(b"/").removesuffix(endpoint)
    if not (target.startswith(b"/") and target.endswith(endpoint)):
        return None
    try:
        return parse_repository(raw), ends_in_git(raw)
    except Malformed:
        return None


def headers_of(request: GitRequest) -> list[tuple[bytes, bytes]]:
    """The headers git itself would send, from constants."""
    headers = []
    if request.protocol:
        headers.append((b"Git-Protocol", b"version=%d" % request.protocol))
    if isinstance(request, Advertise):
        return [(b"Accept", b"*/*"), *headers]
    if isinstance(request, Fetch) and request.gzip:
        headers.append((b"Content-Encoding", b"gzip"))
    content_type = _media_type(service_of(request), b"request")
    return [(b"Accept", response_type(request)), (b"Content-Type", content_type), *headers]


def method_of(request: GitRequest) -> bytes:
    return b"GET" if isinstance(request, Advertise) else b"POST"


def response_type(request: GitRequest) -> bytes:
    """The only content type a 200 may have."""
    kind = b"advertisement" if isinstance(request, Advertise) else b"result"
    return _media_type(service_of(request), kind)


def service_of(request: GitRequest) -> Service:
    match request:
        case Advertise(service=service):
            return service
        case Fetch():
            return Service.UPLOAD_PACK
        case Push():
            return Service.RECEIVE_PACK
        case _:
            assert_never(request)


def _endpoint(request: GitRequest) -> bytes:
    service = service_of(request).octets
    if isinstance(request, Advertise):
        return _INFO_REFS + b"?service=" + service
    return b"/" + service


def _media_type(service: Service, kind: bytes) -> bytes:
    return b"application/x-" + service.octets + b"-" + kind

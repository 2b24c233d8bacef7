"""The one canonical spelling of where a repository is: a place and a path."""

import re
from functools import lru_cache

from attrs import field, frozen
from attrs.validators import instance_of

from gitmoat.wire.malformed import Malformed

MAX_NAME = 253
MAX_PATH = 255

# RFC 1123, 2.1, lower case only.
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_PLACE = re.compile(rf"(?P<name>{_LABEL}(?:\.{_LABEL})*)(?::(?P<port>[1-9][0-9]{{0,4}}))?")
# No `%`: RFC 3986, 6.2.2.2 makes %61 and `a` the same, and servers decode before they look.
_SEGMENT = re.compile(r"[A-Za-z0-9._~+-]+")
# gitprotocol-http appends these to a repository's URL. A server that looks for the first of them in
# acme/app/info/refs/info/refs serves acme/app, which nobody decided on.
_ENDPOINT = re.compile(r"/(?:info/(?:refs|lfs)|git-(?:upload|receive)-(?:pack|archive))(?:/|\Z)")


@frozen
class Place:
    """`host`, `host:port`, or the name of an upstream: the first segment of a request's path."""

    text: str = field(validator=instance_of(str))

    @text.validator
    def _check(self, _attribute: object, text: str) -> None:
        matched = _PLACE.fullmatch(text)
        if matched is None or len(matched["name"]) > MAX_NAME or int(matched["port"] or 0) > 65535:
            raise Malformed("not a host name", 404)


@frozen
class RepositoryPath:
    """A path as policy sees it: `acme/app`, with no `.git` and no slash at either end."""

    text: str = field(validator=instance_of(str))

    @text.validator
    def _check(self, _attribute: object, text: str) -> None:
        if len(text) > MAX_PATH:
            raise Malformed("repository path is too long", 404)
        if not all(map(_is_segment, text.split("/"))) or _ENDPOINT.search(text):
            raise Malformed("not a repository path", 404)


# What was refused is not remembered, so nothing longer than a path is.
@lru_cache(maxsize=256)
def parse_place(raw: bytes) -> Place:
    """Accept lower case only: a name that needs folding has two spellings."""
    return Place(_ascii(raw))


@lru_cache(maxsize=256)
def parse_repository(raw: bytes) -> RepositoryPath:
    """Strip one trailing `/`, then one `.git`; refuse whatever is not canonical after that."""
    return RepositoryPath(_ascii(raw).removesuffix("/").removesuffix(".git"))


def ends_in_git(raw: bytes) -> bool:
    """Whether the `.git` that `parse_repository` strips is there."""
    return raw.removesuffix(b"/").endswith(b".git")


def _is_segment(segment: str) -> bool:
    # `.` and `..` are removed by a server or proxy (RFC 3986, 5.2.4): another repository is left.
    # `.git` is refused in any case and place: app.git.git, app.GIT (a folding upstream) and
    # app.git/info/lfs/x would each be a second name for something else.
    return (
        _SEGMENT.fullmatch(segment) is not None
        and segment not in (".", "..")
        and not segment.lower().endswith(".git")
    )


def _ascii(raw: bytes) -> str:
    if not raw.isascii():
        raise Malformed("path is not ASCII", 404)
    return raw.decode("ascii")

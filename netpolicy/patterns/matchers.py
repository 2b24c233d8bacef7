"""Patterns over repositories, refs and hosts, matched by segments.

`*` is any run inside one segment, `**` is one or more whole segments; nothing else is special.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from attrs import field, frozen

from gitmoat.wire.git.receivepack import RefName, parse_ref
from gitmoat.wire.git.repository_name import MAX_PATH, RepositoryPath, parse_repository
from gitmoat.wire.malformed import Malformed
from netpolicy.patterns.forgenames import companion, denied_with, may_match_ref, refs_denied_with

_UPSTREAM = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_HEADS = "refs/heads/"
_TAGS = "refs/tags/"


class BadPattern(ValueError):
    """A pattern that is refused; `hint` says what to write instead."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint


def is_upstream_name(text: str) -> bool:
    """Lower-case letters, digits and inner hyphens; never a dot, so never a host's name."""
    return _UPSTREAM.fullmatch(text) is not None


def _run_matches(glob: str, text: str) -> bool:
    first, *rest = glob.split("*")
    if not rest:
        return glob == text
    *middle, last = rest
    at, end = len(first), len(text) - len(last)
    if at > end or not text.startswith(first) or not text.endswith(last):
        return False
    for piece in middle:
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def segments_match(
    pattern: Sequence[str],
    subject: Sequence[str],
    fits: Callable[[str, str], bool] = _run_matches,
) -> bool:
    """Whether the whole subject matches; `fits` judges one segment, unless the pattern has `**`.

    The places reached are a set, so no input is slow.
    """
    reached = {0}
    for segment in subject:
        reached = {after for at in reached for after in _steps(pattern, at, segment, fits)}
    return len(pattern) in reached


def _steps(
    pattern: Sequence[str], at: int, segment: str, fits: Callable[[str, str], bool]
) -> Iterator[int]:
    if at == len(pattern):
        return
    if pattern[at] == "**":
        yield at
        yield at + 1
    elif fits(pattern[at], segment):
        yield at + 1


def segments_cover(wide: Sequence[str], narrow: Sequence[str]) -> bool:
    """Whether all that the narrow pattern matches, the wide one matches; False also where that is
    hard to tell."""
    return segments_match(wide, narrow, _covers_segment)


def _covers_segment(wide: str, narrow: str) -> bool:
    """A `*` of the narrow pattern is plain text here, which only a `*` of the wide one matches."""
    return narrow != "**" and segments_match((wide,), (narrow,))


def _example(pattern: str, separator: str) -> str:
    """Something the pattern matches, to be judged by the subject's own grammar."""
    for segment in pattern.split(separator):
        if "**" in segment and segment != "**":
            raise BadPattern("`**` must be a whole segment", "write `*` inside a segment")
    return pattern.replace("**", f"x{separator}x").replace("*", "x")


@frozen
class RepoPattern:
    """`upstream:path`; only the path may hold wildcards."""

    upstream: str = field()
    path: str = field()

    @upstream.validator
    def _check_upstream(self, _attribute: object, upstream: str) -> None:
        if not is_upstream_name(upstream):
            raise BadPattern(
                "not an upstream's name before the colon", "write `upstream:path`, no wildcard"
            )

    @path.validator
    def _check_path(self, _attribute: object, path: str) -> None:
        if len(path) > MAX_PATH:
            raise BadPattern(f"longer than {MAX_PATH} bytes")
        try:
            RepositoryPath(_example(path, "/"))
        except Malformed:
            raise BadPattern(
                "not a repository path", "segments of A-Z a-z 0-9 . _ ~ + -, with * or **"
            ) from None

    @property
    def text(self) -> str:
        return f"{self.upstream}:{self.path}"

    def matches(self, upstream: str, repository: RepositoryPath, fold: bool) -> bool:
        """For a rule that allows: no wildcard matches a companion."""
        if upstream != self.upstream:
            return False
        pattern, subject = self.path, repository.text
        if fold:
            pattern, subject = pattern.lower(), subject.lower()
        return _path_matches(pattern, subject)

    def denies(self, upstream: str, repository: RepositoryPath) -> bool:
        """For a rule that denies: what belongs to the repository is denied with it, in any case of
        letters."""
        if upstream != self.upstream:
            return False
        names = denied_with(repository.text.lower())
        return any(_plain_match(self.path.lower(), name) for name in names)


@lru_cache(maxsize=512)
def _path_matches(pattern: str, subject: str) -> bool:
    """Depends on the two texts alone, so the cache serves every policy."""
    found = companion(subject)
    if found is None:
        return segments_match(pattern.split("/"), subject.split("/"))
    owners = found.without_tail(pattern)
    return owners is not None and _path_matches(owners, found.owner)


@lru_cache(maxsize=512)
def _plain_match(pattern: str, subject: str) -> bool:
    return segments_match(pattern.split("/"), subject.split("/"))


def parse_repo_pattern(text: str) -> RepoPattern:
    """Strip what a repository's canonical spelling strips: one `/`, then one `.git`."""
    upstream, colon, path = text.partition(":")
    if not colon:
        raise BadPattern("no upstream", "write `upstream:path`, like `github:acme/app`")
    return RepoPattern(upstream, path.removesuffix("/").removesuffix(".git"))


def parse_repo_name(text: str) -> tuple[str, RepositoryPath]:
    """One repository as `upstream:path`, without wildcards."""
    upstream, colon, path = text.partition(":")
    if not colon or not is_upstream_name(upstream):
        raise BadPattern("no upstream", "write `upstream:path`, like `github:acme/app`")
    try:
        return upstream, parse_repository(path.encode())
    except Malformed as error:
        raise BadPattern(error.what, "name one repository, without wildcards") from None


@frozen
class RefPattern:
    """A full ref name with wildcards. A deny rule folds case and matches in every namespace: there
    wider is safer."""

    text: str = field()

    @text.validator
    def _check(self, _attribute: object, text: str) -> None:
        if not text.isascii() or len(text) > MAX_PATH:
            raise BadPattern(f"not ASCII, or longer than {MAX_PATH} bytes")
        try:
            parse_ref(_example(text, "/").encode())
        except Malformed:
            raise BadPattern("not a ref that git accepts", "see git check-ref-format") from None

    def matches(self, ref: RefName) -> bool:
        if not may_match_ref(self.text, ref.text):
            return False
        return segments_match(self.text.split("/"), ref.text.split("/"))

    def denies(self, ref: RefName) -> bool:
        pattern = self.text.casefold().split("/")
        names = refs_denied_with(ref.text.casefold())
        return any(segments_match(pattern, name.split("/")) for name in names)


def parse_branch_pattern(text: str) -> RefPattern:
    return _under(_HEADS, text)


def parse_tag_pattern(text: str) -> RefPattern:
    return _under(_TAGS, text)


def parse_ref_pattern(text: str) -> RefPattern:
    if not text.startswith("refs/"):
        raise BadPattern("not a full ref name", "write `refs/...`, or use `branches` or `tags`")
    return RefPattern(text)


def _under(prefix: str, text: str) -> RefPattern:
    if text.startswith("refs/"):
        raise BadPattern("a full ref name where a short one is meant", f"leave out `{prefix}`")
    return RefPattern(prefix + text)


@frozen
class HostPattern:
    """A host name in lower-case A-labels; a wildcard never matches the name below it."""

    text: str = field()

    @text.validator
    def _check(self, _attribute: object, text: str) -> None:
        labels = text.split(".")
        if len(text) > 253 or not all(map(_LABEL.fullmatch, _example(text, ".").split("."))):
            raise BadPattern("not a host name", "lower-case ASCII labels, no port, no final dot")
        if _NUMBER.fullmatch(labels[-1]):
            raise BadPattern("an IP address is not a host name", "name the host")
        if "*" in labels[-1]:
            raise BadPattern("a wildcard for the last label", "name the domain")
        if labels[-1] == "localhost":
            raise BadPattern("localhost is not reached through the proxy", "leave it out")

    def matches(self, host: str) -> bool:
        """Only for a host that is lower-case ASCII already."""
        return segments_match(self.text.split("."), host.split("."))

    def covers(self, narrow: "HostPattern") -> bool:
        return segments_cover(self.text.split("."), narrow.text.split("."))

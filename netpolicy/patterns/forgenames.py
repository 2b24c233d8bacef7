"""Names with a meaning of their own on a forge. Pure text: both hops, and all that explains or
checks a policy, read them here.

A companion is a repository that a forge keeps beside another, under that one's name: its wiki, its
designs, its snippets. Who may not see the repository may not see them, and who wrote `acme/*`
meant repositories. A ref outside `refs/heads` and `refs/tags` may be a command: a push to
`refs/for/main` opens a review, one to `refs/meta/config` changes who may do what.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from attrs import frozen

# GitHub, GitLab, Gitea, Forgejo, Gogs, Azure DevOps; GitLab alone.
_BESIDE: Final = re.compile(r"(?P<owner>.*[^/])(?P<tail>\.wiki|\.design)", re.IGNORECASE)
# Bitbucket; GitLab's snippets of a project. `acme/wiki` is a repository like any other.
_BELOW: Final = re.compile(
    r"(?P<owner>.*\*\*|[^/]+(?:/[^/]+)+?)(?P<tail>/wiki|(?:/-)?/snippets/[0-9*]+)", re.IGNORECASE
)
# Gerrit serves P as a/P and p/P too, Pagure keeps docs/P, requests/P and tickets/P beside P.
_IN_FRONT: Final = re.compile(r"(?:a|p|docs|requests|tickets)/(?P<owner>.+)", re.IGNORECASE)
_STACKED: Final = 4  # more than any forge is known to take off
# Azure DevOps: one repository, more or fewer of its refs.
_VIEW: Final = re.compile(r"(?<=/_git/)_(?:full|optimized)/", re.IGNORECASE)
_PLAIN_REFS: Final = ("heads", "tags")


@frozen
class Companion:
    """`tail` is what makes the owner's path the companion's; both as they were written."""

    owner: str
    tail: str

    def without_tail(self, pattern: str) -> str | None:
        """What a pattern says of the owner; None when it does not spell the tail."""
        tail = self.tail
        if "/snippets/" in tail.lower():
            tail, _, number = tail.rpartition("/")
            pattern, _, last = pattern.rpartition("/")
            if last not in (number, "*", "**"):
                return None
        return pattern.removesuffix(tail) if pattern.endswith(tail) else None


def companion(path: str) -> Companion | None:
    """The companion that a repository's path, or a pattern that spells the tail, names."""
    found = _BESIDE.fullmatch(path) or _BELOW.fullmatch(path)
    return Companion(found["owner"], found["tail"]) if found is not None else None


@lru_cache(maxsize=256)
def denied_with(path: str) -> tuple[str, ...]:
    """The path, and every repository whose denial denies it too."""
    views = (path, _VIEW.sub("", path))
    fronts = [name for view in views for name in _fronts(view)]
    return tuple(dict.fromkeys(each for name in fronts for each in _owners(name)))


def _fronts(path: str) -> Iterator[str]:
    """One stands on another (Gerrit serves P as a/p/P too): they come off one by one, and in the
    end all at once, so that a path of nothing else is not matched in hundreds of ways."""
    yield path
    for _ in range(_STACKED):
        if (found := _IN_FRONT.fullmatch(path)) is None:
            return
        path = found["owner"]
        yield path
    while (found := _IN_FRONT.fullmatch(path)) is not None:
        path = found["owner"]
    yield path


def _owners(path: str) -> Iterator[str]:
    """A wiki's wiki has an owner and an owner's owner, though no forge is known to have one."""
    yield path
    while (found := companion(path)) is not None:
        # `.git` is one spelling of nothing at all; a server may take it off behind the tail.
        path = re.sub(r"\.git\Z", "", found.owner, flags=re.IGNORECASE) or found.owner
        yield path


def may_match_ref(pattern: str, ref: str) -> bool:
    """Whether a pattern may match the ref at all: a wildcard is branches and tags, every other
    namespace is spelled, and so is the `%` behind which Gerrit takes options (`%submit`), and each
    comma that separates them (`%topic=x,submit`)."""
    namespace = _namespace(ref)
    if namespace in _PLAIN_REFS:
        return True
    if _namespace(pattern) != namespace or ("%" in ref and "%" not in pattern):
        return False
    return _options(ref).count(",") <= _options(pattern).count(",")


def refs_denied_with(ref: str) -> tuple[str, ...]:
    """The ref, and the one it is with options behind a `%`."""
    if _namespace(ref) in _PLAIN_REFS or "%" not in ref:
        return (ref,)
    return (ref, ref.partition("%")[0])


def _options(ref: str) -> str:
    return ref.partition("%")[2]


def _namespace(ref: str) -> str:
    return ref.split("/", 2)[1]

"""Parses what the git gate is asked to do, and what the workspace's git answers.

The admin's words decide which ref a push goes to. The workspace decides no more than whether one of
them is a branch or a tag.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from attrs import frozen

from gitmoat.wire.git.receivepack import RefName, parse_ref
from gitmoat.wire.malformed import Malformed
from hostd.failures import Failed

_TRACKING = "refs/remotes/origin/"
_KINDS = ("refs/heads/", "refs/tags/")
_OPERATIONS = ("fetch", "push", "ls-remote", "diff")
_OBJECT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/@{}^~-]{0,250}")


@frozen
class Push:
    """`source` is a revision of the workspace, None to delete. `destination` is a ref as typed,
    with or without its beginning; None: the source's own name."""

    source: str | None
    destination: str | None
    force: bool


@frozen
class Target:
    """What is pushed, and the full name of where it goes; None: to the branch that HEAD is on."""

    source: str | None
    destination: str | None
    force: bool


@frozen
class GateRequest:
    operation: str
    remote: str
    pushes: tuple[Push, ...] = ()
    refs: tuple[str, ...] = ()


def _usage(what: str) -> Failed:
    return Failed(
        "C105",
        what,
        why="the gate knows three commands and none of git's options",
        fix="hostctl git S -- fetch, push [origin] [REF...] or ls-remote [origin] [REF...]",
        exit_code=2,
    )


def _full(text: str, kind: str = "refs/heads/") -> str:
    return text if text.startswith("refs/") else f"{kind}{text}"


def _checked(text: str) -> str:
    """A ref as typed; usage error if no ref can have this name."""
    try:
        parse_ref(_full(text).encode())
    except Malformed as problem:
        raise _usage(f"{text!r} is not a ref name: {problem.what}") from None
    return text


def parse_push(text: str) -> Push:
    """`REF`, `SRC:DST`, `:DST`, each with an optional leading `+`."""
    force, text = text.startswith("+"), text.removeprefix("+")
    source, colon, destination = text.partition(":")
    if not source:
        if not destination:
            raise _usage("a push needs a ref")
        return Push(None, _checked(destination), force)
    if not _REVISION.fullmatch(source):
        raise _usage(f"{source!r} is not a revision")
    if colon:
        return Push(source, _checked(destination), force)
    return Push(source if source == "HEAD" else _checked(source), None, force)


def candidates(name: str | None) -> list[str]:
    """The branches and tags that a name may mean (gitrevisions(7), <refname>)."""
    if name is None or name == "HEAD":
        return []
    spelled = [name] if name.startswith("refs/") else [f"refs/{name}", *(k + name for k in _KINDS)]
    return [each for each in spelled if each.startswith(_KINDS) and _is_ref(each)]


def _is_ref(text: str) -> bool:
    try:
        parse_ref(text.encode())
    except Malformed:
        return False
    return True


def target(push: Push, workspace: Collection[str], upstream: Collection[str]) -> Target:
    """Where it goes, as git decides (match_explicit() in git's remote.c), given the refs that both
    sides have of the candidates. A destination without its beginning is of the kind of what is
    pushed; of what is neither branch nor tag git would ask for more, and we make a branch."""
    if push.source is None and push.destination is not None:
        found = _one(push.destination, upstream)
        return Target(None, found or _full(push.destination), push.force)
    source = push.source or ""
    found = _one(source, workspace)
    if push.destination is not None:
        kind = next((each for each in _KINDS if (found or "").startswith(each)), _KINDS[0])
        return Target(found or source, _full(push.destination, kind), push.force)
    if source == "HEAD":
        return Target(source, None, push.force)
    return Target(found or source, found or _full(source), push.force)


def _one(name: str, there: Collection[str]) -> str | None:
    found = [each for each in candidates(name) if each in there]
    if len(found) > 1:
        raise Failed(
            "R105",
            f"{name!r} is the name of a branch and of a tag",
            why="git does not choose one of them either",
            fix=f"name it whole: {found[0]} or {found[1]}",
            exit_code=4,
        )
    return found[0] if found else None


def parse_gate(arguments: Sequence[str]) -> GateRequest:
    if not arguments or arguments[0] not in _OPERATIONS:
        raise _usage("the git gate does fetch, push and ls-remote")
    for argument in arguments[1:]:
        if argument.startswith("-"):
            raise _usage(f"the git gate takes no option {argument!r}")
    operation, *rest = arguments
    remote, refs = (rest[0], rest[1:]) if rest else ("origin", [])
    if operation == "push":
        return GateRequest(operation, remote, pushes=tuple(map(parse_push, refs or ["HEAD"])))
    if operation == "fetch" and refs:
        raise _usage("the git gate fetches all branches and tags; name no ref")
    if operation == "diff":
        return _parse_diff(remote, refs)
    for ref in refs:
        _checked(ref)
    return GateRequest(operation, remote, refs=tuple(refs))


def _parse_diff(remote: str, revisions: Sequence[str]) -> GateRequest:
    """Of one revision; without one, of all that is in the working tree."""
    if len(revisions) > 1:
        raise _usage("a difference is that of one revision")
    for revision in revisions:
        if not _REVISION.fullmatch(revision):
            raise _usage(f"{revision!r} is not a revision")
    return GateRequest("diff", remote, refs=tuple(revisions))


def parse_branch(output: bytes) -> RefName | None:
    """A branch as the workspace's git prints it, or None for any other output: it is hostile."""
    try:
        ref = parse_ref(output.removesuffix(b"\n"))
    except Malformed:
        return None
    return ref if ref.text.startswith("refs/heads/") else None


def parse_resolved(output: bytes, count: int) -> list[str | None]:
    """The object id on each of `count` lines, None where there is something else or no line."""
    answers = output.decode("ascii", errors="replace").split("\n")[:count]
    found = [line if _OBJECT.fullmatch(line) else None for line in answers]
    return found + [None] * (count - len(found))


def parse_names(output: bytes, asked: Iterable[str]) -> set[str]:
    """Those of the refs that were asked for which are a line of the answer."""
    found = set(output.decode("utf-8", errors="replace").split("\n"))
    return found.intersection(asked)


def parse_objects(output: bytes, most: int) -> list[str]:
    """All lines that are object ids, up to a cap; others are ignored."""
    found = output.decode("ascii", errors="replace").split("\n")
    return [line for line in found[:most] if _OBJECT.fullmatch(line)]


def parse_refs(output: bytes, most: int = 1_000_000) -> dict[str, str]:
    """Ref → object id of all lines that are `OBJECT REF`, up to a cap; others are ignored."""
    found = {}
    for line in output.split(b"\n")[:most]:
        oid, _, name = line.partition(b" ")
        try:
            ref = parse_ref(name).text
        except Malformed:
            continue
        if _OBJECT.fullmatch(text := oid.decode("ascii", errors="replace")):
            found[ref] = text
    return found


def is_tracking(ref: str) -> bool:
    """A branch of origin; its HEAD is a symbolic ref to another one."""
    return ref.startswith(_TRACKING) and ref != f"{_TRACKING}HEAD"


def tracking(ref: str) -> str:
    """The name of an upstream's ref in the workspace: branches become origin's, tags stay."""
    if ref.startswith("refs/heads/"):
        return _TRACKING + ref.removeprefix("refs/heads/")
    return ref


def lines(words: Iterable[str]) -> bytes:
    """Lines for git's standard input."""
    return "".join(f"{word}\n" for word in words).encode()

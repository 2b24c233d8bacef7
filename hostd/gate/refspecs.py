"""Parses what the git gate is asked to do, and what the workspace's git answers.

The admin's words decide which ref a push goes to, never the workspace's names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from attrs import frozen

from gitmoat.wire.git.receivepack import RefName, parse_ref
from gitmoat.wire.malformed import Malformed
from hostd.failures import Failed

_TRACKING = "refs/remotes/origin/"
_OPERATIONS = ("fetch", "push", "ls-remote")
_OBJECT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/@{}^~-]{0,250}")


@frozen
class Push:
    """`source` is a revision of the workspace, None to delete; `destination` a full ref name."""

    source: str | None
    destination: RefName | None
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


def _ref(text: str) -> RefName:
    full = text if text.startswith("refs/") else f"refs/heads/{text}"
    try:
        return parse_ref(full.encode())
    except Malformed as problem:
        raise _usage(f"{text!r} is not a ref name: {problem.what}") from None


def parse_push(text: str) -> Push:
    """`REF`, `SRC:DST`, `:DST`, each with an optional leading `+`."""
    force, text = text.startswith("+"), text.removeprefix("+")
    source, colon, destination = text.partition(":")
    if not source:
        if not destination:
            raise _usage("a push needs a ref")
        return Push(None, _ref(destination), force)
    if not _REVISION.fullmatch(source):
        raise _usage(f"{source!r} is not a revision")
    if colon:
        return Push(source, _ref(destination), force)
    return Push(source, None if source == "HEAD" else _ref(source), force)


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
    for ref in refs:
        _ref(ref)
    return GateRequest(operation, remote, refs=tuple(refs))


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

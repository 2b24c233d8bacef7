"""`hostctl explain`: what an error code means, or what became of a request."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence

from gitmoat.codes import CODES
from gitmoat.paths import Paths
from hostctl.failure import NOT_FOUND, Failure
from hostctl.journals import event_line, events
from hostctl.output import Output

ABOUT = "Tells what an error code (G101) means, or what the audit has about a request id."

_MISSING = (
    "the policy allows it; the git server says not found, or its credential cannot see it: "
    "hostctl cred test NAME --repo UPSTREAM:PATH"
)


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("what", metavar="CODE|REQUEST-ID")


def main(args: Namespace, paths: Paths, out: Output) -> int:
    code = CODES.get(args.what.upper())
    if code is None:
        return _request(args, paths, out)
    if out.json:
        about = {"code": code.id, "text": code.text, "fix": code.fix}
        out.emit({"schema": "gitmoat.explain/1", **about})
    else:
        out.line(f"{code.id}: {code.text}")
        out.line(f"fix: {code.fix}")
    return 0


def _request(args: Namespace, paths: Paths, out: Output) -> int:
    found = [event for event in events(paths) if event.get("req") == args.what]
    if not found:
        what = f"{args.what} is neither an error code nor a request id"
        why = "no code is called that, and no audit record has that id"
        raise Failure("C105", what, why, "codes look like G101", exit_code=NOT_FOUND)
    if out.json:
        out.emit({"schema": "gitmoat.explain/1", "request": args.what, "events": found})
        return 0
    for event in found:
        out.line(event_line(event))
        if out.colour:
            out.line(out.dim(json.dumps(event)))
    if is_missing(found):
        out.line(_MISSING)
    return 0


def is_missing(events: Sequence[Mapping[str, object]]) -> bool:
    """Whether the policy allowed what the git server then did not have."""
    allowed = any(event.get("decision") == "allow" for event in events)
    return allowed and any(event.get("code") == "G101" for event in events)

"""`hostctl audit`: reads, searches, verifies and exports the journals of broker and hostd."""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser, Namespace
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

from gitmoat.audit.chain import JournalBroken, kept_head, read_lines, verify_journal
from gitmoat.audit.schema import journal_schema
from gitmoat.paths import Paths
from hostctl.arguments import sub_parsers
from hostctl.control_client import ask
from hostctl.failure import NOT_FOUND, Failure
from hostctl.journals import (
    Follower,
    Record,
    Wanted,
    event_line,
    journal_broken,
    journal_paths,
    moment,
    records,
    sandbox_names,
)
from hostctl.output import Output, need_root
from hostctl.terminal.waiting_line import Waiting

ABOUT = "Reads, searches, verifies and exports the audit journals."
_FOLLOW_SECONDS = 0.5
_EXPORT = "audit.schema.json"


def arguments(parser: ArgumentParser) -> None:
    add = sub_parsers(parser)
    query = add("query", "Shows every record that matches; --json: one object per line.")
    _filters(query)
    verify = add("verify", "Checks that every record is there and unchanged.")
    verify.add_argument(
        "--from", dest="source", metavar="DIR", help="a directory that `export` wrote"
    )
    export = add("export", "Copies both journals, their heads and their schema to a new directory.")
    export.add_argument("directory", metavar="DIR", help="a directory that does not exist yet")


def _filters(query: ArgumentParser) -> None:
    add = query.add_argument
    add("--since", type=moment, metavar="T", help="a duration (90m, 2d) ago, or a UTC time")
    add("--until", type=moment, metavar="T", help="likewise: where to end")
    add("--sandbox", metavar="S", help="only this sandbox, by id or name")
    add("--session", metavar="ID", help="only this session")
    add("--event", metavar="NAME", help="only this event: push.decision, session.revoked, ...")
    add("--decision", choices=("allow", "deny"), help="only what was allowed, or denied")
    add("--denied", action="store_true", help="the same as --decision deny")
    add("--code", metavar="CODE", help="only this error code")
    add("--repo", metavar="UPSTREAM:PATH", help="only this repository")
    add("--req", metavar="REQUEST-ID", help="only this request, by the id in its refusal")
    add("-n", "--lines", type=int, metavar="N", help="only the last N")
    add("-f", "--follow", action="store_true", help="also print new records, until Ctrl-C")


def main(args: Namespace, paths: Paths, out: Output) -> int:
    need_root("`hostctl audit`")
    action = {"query": _query, "export": _export, "verify": _verify}[args.action]
    return action(args, out, paths)


def _query(args: Namespace, out: Output, paths: Paths) -> int:
    # The followers start before the journals are read, so that no record is missed in between; a
    # record that both saw is left out below, by its number.
    followers = [Follower(path) for path in journal_paths(paths).values()] if args.follow else []
    ends: dict[object, int] = {}
    wanted = _wanted(args, paths)
    found = filter(wanted.matches, _recording_ends(records(paths), ends))
    last = found if args.lines is None else deque(found, maxlen=max(0, args.lines))
    if not _show_all(last, out):
        out.progress("no records match" + ("; waiting" if followers else ""))
    while followers:
        time.sleep(_FOLLOW_SECONDS)
        arrived = (event for follower in followers for event in follower.arrived())
        new = [event for event in arrived if _number(event) > ends.get(event.get("host"), 0)]
        _show_all(sorted(filter(wanted.matches, new), key=lambda e: str(e.get("ts"))), out)
    return 0


def _wanted(args: Namespace, paths: Paths) -> Wanted:
    exact = {key: getattr(args, key) for key in ("session", "event", "code", "repo", "req")}
    return Wanted(
        sandbox_names(args.sandbox, records(paths)) if args.sandbox else frozenset(),
        "deny" if args.denied else args.decision,
        {key: value for key, value in exact.items() if value},
        args.since or "",
        args.until or "",
    )


def _recording_ends(found: Iterable[Record], ends: dict[object, int]) -> Iterator[Record]:
    """The same records; `ends` gets the number of the last one of each host."""
    for event in found:
        ends[event.get("host")] = _number(event)
        yield event


def _number(event: Record) -> int:
    seq = event.get("seq")
    return seq if isinstance(seq, int) else 0


def _show_all(found: Iterable[Record], out: Output) -> int:
    """Shows them, and returns how many there were."""
    count = 0
    for count, event in enumerate(found, 1):  # noqa: B007 -- the last one is the answer
        if out.json:
            out.emit(event)
            continue
        line = event_line(event)
        out.line(out.bad(line) if event.get("decision") == "deny" else line)
    return count


# The heads of the chains, as the daemons that write them know them


def _head(socket: Path, journal: Path) -> tuple[int, str] | None:
    """The number and hash of the last record: the writer is asked, or what it kept is read."""
    try:
        answer = ask(socket, {"op": "audit-head"})
    except Failure as failure:
        if failure.code == "C103":
            return kept_head(journal)
        raise
    seq, head = answer.get("seq"), answer.get("hash")
    return (seq, head) if isinstance(seq, int) and isinstance(head, str) else None


def _checked(paths: Paths) -> dict[str, dict[str, object]]:
    """Verifies both journals. The heads are asked for first, so the files must have them."""
    sockets = {"broker": paths.broker_admin_socket, "hostd": paths.hostd_socket}
    journals = journal_paths(paths)
    heads = {name: _head(sockets[name], path) for name, path in journals.items() if path.exists()}
    found = {name: _check(journals[name], head) for name, head in heads.items()}
    if not found:
        raise Failure("C103", "there is no journal yet", fix="hostctl up", exit_code=NOT_FOUND)
    return found


def _check(path: Path, anchor: tuple[int, str] | None) -> dict[str, object]:
    try:
        verified = verify_journal(path, anchor)
    except JournalBroken as broken:
        raise journal_broken(path, broken) from None
    return {"records": verified.count, "first": verified.first, "head": verified.head}


def _verify(args: Namespace, out: Output, paths: Paths) -> int:
    with Waiting("reading the journals"):
        found = _checked(paths) if args.source is None else _checked_export(args.source)
    if out.json:
        out.emit({"schema": "gitmoat.audit-verify/1", "journals": found, "whole": True})
        return 0
    for name, about in found.items():
        older = f" (older than {about['first']} were removed)" if about["first"] != 1 else ""
        out.line(f"{name}: {about['records']} records{older}, chain intact, head {about['head']}")
    return 0


def _checked_export(directory: str) -> dict[str, dict[str, object]]:
    where = Path(directory)
    try:
        heads = json.loads((where / "heads.json").read_text("ascii"))
        anchors = {
            name: (about["first"] + about["records"] - 1, about["head"])
            for name, about in heads.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        what = f"{directory} is not what `hostctl audit export` wrote"
        raise Failure("B105", what, fix="export again", exit_code=1) from None
    return {name: _check(where / f"{name}.ndjson", anchor) for name, anchor in anchors.items()}


def _export(args: Namespace, out: Output, paths: Paths) -> int:
    """Copies the lines unchanged, so that they can be verified elsewhere."""
    found, where = _checked(paths), Path(args.directory)
    try:
        where.mkdir(mode=0o700)
    except OSError as error:
        fix = "name a directory that does not exist yet"
        raise Failure("C109", f"cannot make {where}", error.strerror or "", fix) from None
    for name, about in found.items():
        records = about["records"]
        with (where / f"{name}.ndjson").open("xb") as copy:
            for number, line in enumerate(read_lines(journal_paths(paths)[name]), 1):
                if number > int(str(records)):
                    break
                copy.write(line + b"\n")
    (where / "heads.json").write_text(json.dumps(found) + "\n", "ascii")
    (where / _EXPORT).write_text(json.dumps(journal_schema(), indent=2) + "\n", "ascii")
    total = sum(int(str(about["records"])) for about in found.values())
    out.result(
        f"{total} records are in {where}; `hostctl audit verify --from {where}` checks them",
        {"schema": "gitmoat.audit-export/1", "directory": str(where), "journals": found},
    )
    return 0

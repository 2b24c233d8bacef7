"""`hostctl audit`: reads and verifies the journals of broker and hostd."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from hostctl.arguments import sub_parsers
from hostctl.failure import Failure
from hostctl.output import Output, need_root

if TYPE_CHECKING:
    from hostctl.journals import Record
    from identity.paths import Paths

ABOUT = "Reads and verifies the audit journals."
_FOLLOW_SECONDS = 0.5


def arguments(parser: ArgumentParser) -> None:
    add = sub_parsers(parser)
    tail = add("tail", "Shows the last records of both journals; --json: one object per line.")
    tail.add_argument("-f", "--follow", action="store_true", help="go on with what comes")
    tail.add_argument("-n", "--lines", type=int, default=20, metavar="N", help="default 20")
    tail.add_argument("--sandbox", metavar="S", help="only this sandbox, by id or name")
    tail.add_argument("--denied", action="store_true", help="only what was denied")
    add("verify", "Checks that every record is there and unchanged.")


def main(args: Namespace, out: Output) -> int:
    need_root("`hostctl audit`")
    from identity.paths import Paths

    paths = Paths(args.root)
    return _tail(args, out, paths) if args.action == "tail" else _verify(out, paths)


def _tail(args: Namespace, out: Output, paths: Paths) -> int:
    shown = _selected(args, paths)
    for event in shown[-args.lines :] if args.lines > 0 else []:
        _show(event, out)
    while args.follow:
        time.sleep(_FOLLOW_SECONDS)
        now = _selected(args, paths)
        for event in now[len(shown) :]:
            _show(event, out)
        shown = now
    return 0


def _selected(args: Namespace, paths: Paths) -> list[Record]:
    from hostctl.journals import events, matches, sandbox_names

    everything = events(paths)
    wanted = sandbox_names(args.sandbox, everything) if args.sandbox else frozenset()
    return [event for event in everything if matches(event, wanted, args.denied)]


def _show(event: Record, out: Output) -> None:
    from hostctl.journals import event_line

    if out.json:
        out.emit(event)
        return
    line = event_line(event)
    out.line(out.bad(line) if event.get("decision") == "deny" else line)


def _broker_head(paths: Paths) -> tuple[int, str] | None:
    """Where the running broker says its chain ends; None when it does not run."""
    from hostctl.client import ask

    try:
        answer = ask(paths.broker_admin_socket, {"op": "audit-head"})
    except Failure as failure:
        if failure.code == "C103":
            return None
        raise
    seq, head = answer.get("seq"), answer.get("hash")
    return (seq, head) if isinstance(seq, int) and isinstance(head, str) else None


def _verify(out: Output, paths: Paths) -> int:
    from audit.verify import JournalBroken, verify_journal
    from hostctl.journals import journal_broken, journal_paths

    found: dict[str, dict[str, object]] = {}
    anchor = _broker_head(paths)  # asked for first, so that it must be in the file by now
    for name, path in journal_paths(paths).items():
        try:
            verified = verify_journal(path, anchor if name == "broker" else None)
        except FileNotFoundError:
            continue
        except JournalBroken as broken:
            raise journal_broken(path, broken) from None
        found[name] = {"records": verified.count, "head": verified.head}
    if not found:
        raise Failure("C103", "there is no journal yet", fix="hostctl up", exit_code=4)
    if out.json:
        out.emit({"schema": "gitmoat.audit-verify/1", "journals": found, "whole": True})
    else:
        for name, about in found.items():
            out.line(f"{name}: {about['records']} records, chain whole, head {about['head']}")
    return 0

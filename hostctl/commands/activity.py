"""`hostctl activity`: what a sandbox did, in one page."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence, Sized

from gitmoat.codes import CODES
from gitmoat.paths import Paths
from hostctl.failure import NOT_FOUND, Failure, plain
from hostctl.journals import Wanted, moment, records, sandbox_names
from hostctl.output import Output, need_root
from hostctl.tally import Push, Tally, Traffic
from hostctl.terminal.moments import moment_text
from hostctl.terminal.quantities import count
from hostctl.terminal.watch import octets

ABOUT = """\
Sums up what a sandbox did, from this host's journals: what it pushed and fetched, which other
hosts it reached, what was refused, and what its owner did. Also of a sandbox that was removed."""
_ROWS = 20
_SHORT = 12


def arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("sandbox", metavar="S", help="id or name")
    add("--since", type=moment, metavar="T", help="a duration (90m, 2d) ago, or a UTC time")
    rows = f"the latest or most of each (default {_ROWS})"
    add("-n", "--lines", type=count, default=_ROWS, metavar="N", help=rows)


def main(args: Namespace, paths: Paths, out: Output) -> int:
    need_root("`hostctl activity`")
    names = sandbox_names(args.sandbox, records(paths))
    wanted = Wanted(sandboxes=names, since=args.since or "")
    tally = Tally()
    tally.take_all(filter(wanted.matches, records(paths)))
    if not tally.first:
        what = f"no record is of a sandbox {args.sandbox!r}"
        why = "it did nothing in that time, or no sandbox was called that"
        raise Failure("R103", what, why, "hostctl audit query", exit_code=NOT_FOUND)
    if out.json:
        out.emit({"schema": "gitmoat.activity/1", "sandbox": args.sandbox, **tally.to_json()})
        return 0
    first, last = moment_text(tally.first), moment_text(tally.last)
    out.line(f"{plain(args.sandbox)}  {first} to {last}")
    for title, rows in _sections(tally, args.lines):
        _show(title, rows, out)
    return 0


def _sections(tally: Tally, most: int) -> Iterator[tuple[str, Sequence[Sequence[object]]]]:
    yield "pushed", _bounded([_pushed(push) for push in tally.pushes[-most:]], tally.pushes)
    yield "fetched", _traffic(tally.fetched, "request", most)
    yield "other hosts", _traffic(tally.hosts, "connection", most)
    refused = [
        (code, "once" if n == 1 else f"{n} times", what, _text(code))
        for (code, what), n in tally.refused.most_common(most)
    ]
    yield "refused", _bounded(refused, tally.refused)
    done = [(moment_text(when), what) for when, what in tally.done[-most:]]
    yield "its life, and what was done to it", _bounded(done, tally.done)


def _bounded(rows: Sequence[Sequence[object]], of: Sized) -> Sequence[Sequence[object]]:
    left = len(of) - len(rows)
    return [*rows, (f"and {left} more",)] if left else rows


def _pushed(push: Push) -> tuple[object, ...]:
    change = f"{push.old[:_SHORT]}..{push.new[:_SHORT]}"
    if not push.old.strip("0"):
        change = f"new {push.new[:_SHORT]}"
    elif not push.new.strip("0"):
        change = f"deleted {push.old[:_SHORT]}"
    return moment_text(push.ts), push.repo, push.ref, change, push.outcome


def _traffic(table: dict[str, Traffic], one: str, most: int) -> Sequence[Sequence[object]]:
    found = sorted(table.items(), key=lambda item: -item[1].received - item[1].sent)
    rows = [
        (
            where,
            f"{each.count} {one}{'' if each.count == 1 else 's'}",
            f"{octets(each.sent)} out",
            f"{octets(each.received)} in",
        )
        for where, each in found[:most]
    ]
    return _bounded(rows, table)


def _text(code: str) -> str:
    return CODES[code].text if code in CODES else ""


def _show(title: str, rows: Sequence[Sequence[object]], out: Output) -> None:
    if not rows:
        return
    width = max(map(len, rows))
    out.line(f"\n{title}")
    out.columns([["", *row, *[""] * (width - len(row))] for row in rows])

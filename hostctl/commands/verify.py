"""`hostctl verify`: measures from inside a sandbox what is enforced."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from json import loads
from pathlib import Path
from typing import Any

from gitmoat.paths import Paths
from hostctl.control_client import ask
from hostctl.failure import NOT_ENFORCED, Failure, plain, usage
from hostctl.output import Output
from hostctl.terminal.moments import moment_text

ABOUT = """\
Tries from inside a sandbox, as both of its users, everything that must not work, and measures from
outside what only the host sees. Prints one line for each control (-q: only for those that are not
enforced); exit 6 if there is one. Nothing is changed; refusals are in the audit like any other.

--sign prints the report as JSON with the host's signature, and the table to stderr:
    hostctl verify S --sign > report.json
--check verifies the signature of such a report."""

_TIMEOUT = 300.0


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("sandbox", metavar="S", nargs="?", help="id or name")
    parser.add_argument("--only", metavar="GROUP,...", help="only these groups of controls")
    parser.add_argument("--sign", action="store_true", help="print a report signed by this host")
    parser.add_argument("--check", metavar="FILE", help="check the signature of a saved report")
    parser.add_argument("--key", metavar="KEY", help="with --check: the public key of its host")


def main(args: Namespace, paths: Paths, out: Output) -> int:
    if args.check is not None:
        return _check(args, paths, out)
    if args.sandbox is None or args.key is not None:
        raise usage("name a sandbox, or --check FILE", "hostctl verify S")
    report = measure(args, paths, out)
    if args.sign or out.json:
        out.emit(report)
    if not out.json:
        _show(report, Output(stdout=sys.stderr) if args.sign else out)
    return 0 if report["enforced"] == report["total"] else NOT_ENFORCED


def measure(args: Namespace, paths: Paths, out: Output) -> dict[str, Any]:
    request: dict[str, object] = {"op": "verify", "sandbox": args.sandbox, "sign": args.sign}
    if args.only is not None:
        request["groups"] = args.only.split(",")
    answer = ask(paths.hostd_socket, request, out.progress, _TIMEOUT)
    report = answer.get("report")
    if not isinstance(report, dict):
        raise Failure("C107", "hostd returned no report")
    return report


def _show(report: Mapping[str, Any], out: Output) -> None:
    good, bad = ("✓", "✗") if out.can_show("✓✗") else ("[ok]  ", "[FAIL]")
    group = None
    for row in (row for row in report["probes"] if not (out.quiet and row["ok"])):
        if row["group"] != group:
            group = row["group"]
            out.line(out.dim(f"{group}"))
        mark = out.good(good) if row["ok"] else out.bad(bad)
        who, what = plain(row["as"]), plain(row["probe"])
        got = plain(row["got"]) if row["ok"] else out.bad(_wrong(row))
        out.line(f"  {mark} {what:<48} {who:<10} {row['expect']:<6} {got}")
    enforced, total = report["enforced"], report["total"]
    name = plain(report["name"])
    if enforced == total:
        out.result(out.good(f"{name}: all {total} controls are enforced"), {})
    else:
        out.line(out.bad(f"{name}: {total - enforced} of {total} controls are not enforced"))
        out.progress(f"hint: hostctl stop {name}; hostctl explain CODE")


def _wrong(row: Mapping[str, Any]) -> str:
    return f"{plain(row['got'])} [{plain(row['code'])}]"


def _check(args: Namespace, paths: Paths, out: Output) -> int:
    """Needs no daemon: the key is that of this host, or the one that is named."""
    # PyNaCl takes long to import, and only --check needs it.
    from gitmoat.identity.signed_report import ReportRefused, check_report

    key = args.key if args.key is not None else _own_key(paths)
    try:
        report = loads(Path(args.check).read_text(encoding="utf-8"))
        check_report(report, key)
        enforced, total, name = report["enforced"], report["total"], report["name"]
        when = report["facts"]["time"]
    except OSError as error:
        fix = "name a file that `hostctl verify --sign` wrote"
        raise Failure("N211", f"{args.check} cannot be read", str(error.strerror), fix) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Failure("N211", f"{args.check} is not a report of `hostctl verify`") from None
    except ReportRefused as refused:
        raise Failure("N211", f"{args.check} cannot be trusted", str(refused)) from None
    text = f"genuine: {plain(name)} at {moment_text(when)}, {enforced} of {total} enforced"
    fields = {"enforced": enforced, "total": total, "name": name, "time": when, "key": key}
    out.result(text, {"schema": "gitmoat.verify-check/1", "genuine": True, **fields})
    return 0 if enforced == total else NOT_ENFORCED


def _own_key(paths: Paths) -> str:
    from gitmoat.identity.keyfile import KeyFileUnsafe, load_key, public_text

    try:
        return public_text(load_key(paths.host_key, 0))
    except (KeyFileUnsafe, OSError) as problem:
        fix = "run it as root on the host that signed, or give its public key with --key"
        raise Failure("N104", "this host's key cannot be read", str(problem), fix) from None

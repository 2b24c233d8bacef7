"""`hostctl session`: extends and revokes the sessions of sandboxes."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from gitmoat.paths import Paths
from hostctl.arguments import sub_parsers
from hostctl.control_client import ask
from hostctl.failure import usage
from hostctl.output import Output
from hostctl.terminal.moments import until
from netpolicy.format.units import parse_duration

ABOUT = "Extends and revokes sessions; `hostctl ls --fleet` lists them."
_WHICH = "a sandbox's id or name, or a session's id"


def arguments(parser: ArgumentParser) -> None:
    add = sub_parsers(parser)
    longer = add("extend", "Moves a session's hard end, within its policy's max_ttl.")
    longer.add_argument("session", metavar="S", help=_WHICH)
    longer.add_argument("--ttl", required=True, metavar="T", help="how long from now: 90m, 8h")
    revoke = add("revoke", "Ends sessions now; transfers that run are cut.")
    revoke.add_argument("session", metavar="S", nargs="?", help=_WHICH)
    revoke.add_argument("--all", action="store_true", help="every session")
    revoke.add_argument("--reason", default="", metavar="T", help="a text for the audit")


def main(args: Namespace, paths: Paths, out: Output) -> int:
    action = {"extend": _extend, "revoke": _revoke}[args.action]
    return action(args, out, paths)


def _extend(args: Namespace, out: Output, paths: Paths) -> int:
    """The broker knows every name of a session; hostd keeps its sandbox's time."""
    try:
        seconds = parse_duration(args.ttl)
    except ValueError as error:
        raise usage(f"--ttl: {error}", "such as --ttl 8h") from None
    shown = ask(paths.broker_admin_socket, {"op": "session-show", "session": args.session})
    request = {"op": "extend", "sandbox": shown.get("sandbox"), "ttl": seconds}
    answer = ask(paths.hostd_socket, request)
    text = f"{args.session} now ends {until(answer.get('expires'))}"
    out.result(text, {"schema": "gitmoat.session-extend/1", **answer})
    return 0


def revoke_request(args: Namespace) -> dict[str, object]:
    if args.all == (args.session is not None):
        raise usage("name one session, or --all", "hostctl session revoke S, or --all")
    whom: dict[str, object] = {"all": True} if args.all else {"session": args.session}
    return {"op": "session-revoke", **whom, "reason": args.reason}


def _revoke(args: Namespace, out: Output, paths: Paths) -> int:
    answer = ask(paths.broker_admin_socket, revoke_request(args), out.progress)
    revoked = answer.get("revoked")
    sessions = revoked if isinstance(revoked, list) else [revoked]
    text = f"revoked {len(sessions)} sessions" if args.all else f"revoked {args.session}"
    out.result(text, {"schema": "gitmoat.session-revoke/1", "revoked": sessions})
    return 0

"""`hostctl session`: renews and revokes the sessions of sandboxes."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from gitmoat.paths import Paths
from hostctl.arguments import sub_parsers
from hostctl.control_client import ask
from hostctl.failure import usage
from hostctl.output import Output
from hostctl.terminal.moments import until
from hostctl.terminal.quantities import duration

ABOUT = "Renews and revokes sessions; `hostctl ls` tells when they end, --fleet lists them."
_RENEW = """\
Lets a sandbox go on for so long from now, also when its session has ended by its time or by
silence: then it gets another, under the same policy. What it has moved goes on counting against
its quota. An end by revocation or by the quota is final."""
_WHICH = "a sandbox's id or name, or a session's id"


def arguments(parser: ArgumentParser) -> None:
    add = sub_parsers(parser)
    renew = add("renew", _RENEW)
    renew.add_argument("sandbox", metavar="S", help="a sandbox's id or name")
    how_long = "how long from now: 90m, 8h; at most the policy's max_ttl (default: its ttl)"
    renew.add_argument("--ttl", type=duration, metavar="T", help=how_long)
    revoke = add("revoke", "Ends sessions now; transfers that run are cut.")
    revoke.add_argument("session", metavar="S", nargs="?", help=_WHICH)
    revoke.add_argument("--all", action="store_true", help="every session")
    revoke.add_argument("--reason", default="", metavar="T", help="a text for the audit")


def main(args: Namespace, paths: Paths, out: Output) -> int:
    action = {"renew": _renew, "revoke": _revoke}[args.action]
    return action(args, out, paths)


def _renew(args: Namespace, out: Output, paths: Paths) -> int:
    request = {"op": "renew", "sandbox": args.sandbox, "ttl": args.ttl}
    answer = ask(paths.hostd_socket, request, out.progress)
    name = str(answer.get("name"))
    if answer.get("expires") is None:
        text = f"{name} has a session again when it is started: hostctl start {name}"
    else:
        again = "has git again, and " if answer.get("new") else ""
        text = f"{name} {again}now ends {until(answer.get('expires'))}"
    out.result(text, {"schema": "gitmoat.session-renew/1", **answer})
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

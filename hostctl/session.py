"""`hostctl session`: what the broker knows of the sandboxes' sessions."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hostctl.arguments import sub_parsers
from hostctl.failure import usage
from hostctl.output import Output

if TYPE_CHECKING:
    from pathlib import Path

    from identity.paths import Paths

ABOUT = "Lists, shows, extends and revokes sessions."
_HEADER = ("SESSION", "SANDBOX", "NAME", "STATE", "EXPIRES")


def arguments(parser: ArgumentParser) -> None:
    add = sub_parsers(parser)
    add("ls", "Lists the sessions; -q: ids only.")
    show = add("show", "Shows one session.")
    show.add_argument("session", metavar="S", help="a sandbox's id or name, or a session's id")
    longer = add("extend", "Moves a session's hard end, within its policy's max_ttl.")
    longer.add_argument("session", metavar="S", help="as for show")
    longer.add_argument("--ttl", required=True, metavar="T", help="from now: 90m, 8h")
    revoke = add("revoke", "Ends sessions now; live transfers are cut.")
    revoke.add_argument("session", metavar="S", nargs="?", help="as for show")
    revoke.add_argument("--all", action="store_true", help="every session")
    revoke.add_argument("--reason", default="", metavar="T", help="goes into the audit")


def main(args: Namespace, out: Output) -> int:
    from identity.paths import Paths

    paths = Paths(args.root)
    if args.action == "extend":
        return _extend(args, out, paths)
    actions = {"ls": _ls, "show": _show, "revoke": _revoke}
    return actions[args.action](args, out, paths.broker_admin_socket)


def _extend(args: Namespace, out: Output, paths: Paths) -> int:
    """The broker knows every name of a session; hostd keeps its sandbox's time."""
    from hostctl.client import ask
    from hostctl.clock import until
    from netpolicy.units import parse_duration

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


def _ls(args: Namespace, out: Output, socket: Path) -> int:
    from hostctl.client import ask, items_of

    sessions = items_of(ask(socket, {"op": "session-ls"}, out.progress))
    if out.json:
        out.emit({"schema": "gitmoat.session-ls/1", "items": sessions})
    elif out.quiet:
        for session in sessions:
            out.line(str(session.get("session", "")))
    elif sessions:
        out.table(_HEADER, [_row(session) for session in sessions])
    else:
        out.progress("no sessions")
    return 0


def _row(session: Mapping[str, object]) -> list[object]:
    from hostctl.clock import until

    keys = ("session", "sandbox", "name", "state")
    expires = None if session.get("state") == "ended" else session.get("expires")
    return [*(session.get(key) or "-" for key in keys), until(expires)]


def _show(args: Namespace, out: Output, socket: Path) -> int:
    from hostctl.client import ask
    from hostctl.inspect import show

    about = dict(ask(socket, {"op": "session-show", "session": args.session}, out.progress))
    if out.json:
        out.emit({"schema": "gitmoat.session-show/1", **about})
        return 0
    policy = about.pop("policy", None)
    show({**about, "policy": policy.get("name") if isinstance(policy, dict) else policy}, out)
    if about.get("state") != "ended":
        out.progress(f"hint: hostctl policy render {about.get('name')} prints what it may do")
    return 0


def revoke_request(args: Namespace) -> dict[str, object]:
    if args.all == (args.session is not None):
        raise usage("name one session, or --all", "hostctl session revoke S, or --all")
    whom: dict[str, object] = {"all": True} if args.all else {"session": args.session}
    return {"op": "session-revoke", **whom, "reason": args.reason}


def _revoke(args: Namespace, out: Output, socket: Path) -> int:
    from hostctl.client import ask

    answer = ask(socket, revoke_request(args), out.progress)
    revoked = answer.get("revoked")
    sessions = revoked if isinstance(revoked, list) else [revoked]
    text = f"revoked {len(sessions)} sessions" if args.all else f"revoked {args.session}"
    out.result(text, {"schema": "gitmoat.session-revoke/1", "revoked": sessions})
    return 0

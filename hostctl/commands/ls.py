"""`hostctl ls`: the sandboxes of this host, and with --fleet the sessions of every host."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from gitmoat.paths import Paths
from hostctl.control_client import ask, items_of
from hostctl.output import Column, Item, Output
from hostctl.terminal.moments import ago, span, until
from hostctl.terminal.quantities import duration
from hostctl.terminal.watch import watch

ABOUT = """\
Lists the sandboxes of this host; -q prints only their ids.

--fleet asks the broker instead: the sessions of every host, also those that have ended.
--watch shows streams, rates, refusals and ages, and repeats this."""

# So many seconds before the end of a session `ls` says how to go on.
_SOON = 30 * 60


def arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    which = parser.add_mutually_exclusive_group().add_argument
    which("--fleet", action="store_true", help="list the broker's sessions, of every host")
    which("--watch", action="store_true", help="show what each sandbox does now, until q")
    add("--once", action="store_true", help="with --watch: one table, then exit")
    add("--interval", type=duration, default=2, metavar="T", help="with --watch: how often (2s)")


def main(args: Namespace, paths: Paths, out: Output) -> int:
    if args.watch:
        return watch(paths, args.once, args.interval, out)
    if args.fleet:
        sessions = items_of(ask(paths.broker_admin_socket, {"op": "session-ls"}, out.progress))
        return out.listing("gitmoat.session-ls/1", sessions, "session", _SESSIONS, "no sessions")
    sandboxes = items_of(ask(paths.hostd_socket, {"op": "ls", "sessions": True}, out.progress))
    none = "there are no sandboxes; `hostctl run` starts one"
    code = out.listing("gitmoat.ls/1", sandboxes, "sandbox", _SANDBOXES, none)
    for name in [] if out.json or out.quiet else map(_to_be_renewed, sandboxes):
        if name is not None:
            out.progress(f"hint: hostctl session renew {name}")
    return code


def _to_be_renewed(sandbox: Item) -> str | None:
    """The name of a sandbox whose session has ended and can be renewed, or ends soon."""
    session = sandbox.get("session")
    if not isinstance(session, dict):
        return None
    left = session.get("left")
    soon = isinstance(left, int) and left < _SOON
    return str(sandbox.get("name")) if soon or session.get("renewable") is True else None


def _session(sandbox: Item) -> str:
    """How long the session lasts, or why it is over."""
    match sandbox.get("session"):
        case {"left": int(left)}:
            return f"ends in {span(left)}"
        case {"over": str(why)}:
            return f"ended: {why}"
        case _:
            return "-"


def _policy(sandbox: Item) -> object:
    policy = sandbox.get("policy")
    return policy.get("name") if isinstance(policy, dict) else policy


def _expires(session: Item) -> str:
    return until(None if session.get("state") == "ended" else session.get("expires"))


_SANDBOXES: dict[str, Column] = {
    "SANDBOX": "sandbox",
    "NAME": "name",
    "STATE": "state",
    "RUNTIME": "runtime",
    "POLICY": _policy,
    "SESSION": _session,
    "CREATED": lambda sandbox: ago(sandbox.get("created")),
}
_SESSIONS: dict[str, Column] = {
    "SESSION": "session",
    "SANDBOX": "sandbox",
    "NAME": "name",
    "STATE": "state",
    "EXPIRES": _expires,
}

"""`hostctl ls`: the sandboxes of this host, and with --fleet the sessions of every host."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from gitmoat.paths import Paths
from hostctl.control_client import ask, items_of
from hostctl.output import Column, Item, Output
from hostctl.terminal.moments import ago, until
from hostctl.terminal.quantities import duration
from hostctl.terminal.watch import watch

ABOUT = """\
Lists the sandboxes of this host; -q prints only their ids.

--fleet asks the broker instead: the sessions of every host, also those that have ended.
--watch shows streams, rates, refusals and ages, and repeats this."""


def arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    which = parser.add_mutually_exclusive_group().add_argument
    which("--fleet", action="store_true", help="list the broker's sessions, of every host")
    which("--watch", action="store_true", help="show what each sandbox does now, until Ctrl-C")
    add("--once", action="store_true", help="with --watch: one table, then exit")
    add("--interval", type=duration, default=2, metavar="T", help="with --watch: how often (2s)")


def main(args: Namespace, paths: Paths, out: Output) -> int:
    if args.watch:
        return watch(paths, args.once, args.interval, out)
    if args.fleet:
        sessions = items_of(ask(paths.broker_admin_socket, {"op": "session-ls"}, out.progress))
        return out.listing("gitmoat.session-ls/1", sessions, "session", _SESSIONS, "no sessions")
    sandboxes = items_of(ask(paths.hostd_socket, {"op": "ls"}, out.progress))
    none = "there are no sandboxes; `hostctl run` starts one"
    return out.listing("gitmoat.ls/1", sandboxes, "sandbox", _SANDBOXES, none)


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
    "CREATED": lambda sandbox: ago(sandbox.get("created")),
}
_SESSIONS: dict[str, Column] = {
    "SESSION": "session",
    "SANDBOX": "sandbox",
    "NAME": "name",
    "STATE": "state",
    "EXPIRES": _expires,
}

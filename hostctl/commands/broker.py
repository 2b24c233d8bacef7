"""`hostctl broker`: the broker's own key, and its clock."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from gitmoat.paths import Paths
from hostctl.arguments import sub_parsers
from hostctl.control_client import ask
from hostctl.output import Output, need_root
from hostctl.setup.defaults import broker_uid
from hostctl.setup.keychange import change_broker_key

ABOUT = "Replaces the broker's key; accepts its clock."


def arguments(parser: ArgumentParser) -> None:
    add = sub_parsers(parser)
    rotate = add("rotate-key", "Replaces the broker's key; sessions and transfers go on.")
    rotate.add_argument(
        "--prepare", action="store_true", help="only make it and pin it on this host"
    )
    add("accept-clock", "Accepts the clock, though it is earlier than it was before.")


def main(args: Namespace, paths: Paths, out: Output) -> int:
    need_root("`hostctl broker`")
    actions = {"rotate-key": _rotate, "accept-clock": _accept}
    return actions[args.action](args, out, paths)


def _rotate(args: Namespace, out: Output, paths: Paths) -> int:
    key, done = change_broker_key(paths, out, args.prepare, broker_uid(paths))
    text = f"the broker's key is now {key}" if done else f"the broker's next key is {key}"
    fields = {"schema": "gitmoat.broker-rotate-key/1", "key": key, "in_force": done}
    out.result(text, fields)
    if not done:
        out.progress("other hosts: put both keys into hostd.toml, then `hostctl reload` there")
    return 0


def _accept(args: Namespace, out: Output, paths: Paths) -> int:
    answer = ask(paths.broker_admin_socket, {"op": "clock-accept"})
    text = f"accepted; it was {answer.get('behind')} s behind"
    out.result(text, {"schema": "gitmoat.broker-accept-clock/1", **answer})
    return 0

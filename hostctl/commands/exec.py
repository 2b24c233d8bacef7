"""`hostctl exec`: another command in a running sandbox."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace

from gitmoat.paths import Paths
from hostctl.arguments import need_command
from hostctl.output import Output
from hostctl.run.pump import run_attached
from hostctl.run.stdio import pipe_ends, terminal_ends, terminal_variables

ABOUT = """\
Runs another command in a running sandbox and returns its exit code.

As the untrusted uid it runs like the first command. As the helper it is meant for the admin: it has
an empty environment, cwd / and a private HOME, and is not in the sandbox's file system."""


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("sandbox", metavar="S", help="id or name")
    parser.add_argument(
        "--as", dest="tier", choices=("untrusted", "helper"), default="untrusted", help="whose uid"
    )
    parser.add_argument(
        "-i", "--interactive", action="store_true", help="pass stdin to the command"
    )
    parser.add_argument(
        "-t", "--tty", action="store_true", help="a terminal of its own, of the kind of yours"
    )


def exec_request(args: Namespace, command: list[str]) -> dict[str, object]:
    return {
        "op": "exec",
        "sandbox": args.sandbox,
        "as": args.tier,
        "argv": command,
        "env": terminal_variables(args.tty, os.environ),
        "tty": args.tty,
    }


def main(args: Namespace, paths: Paths, out: Output) -> int:
    request = exec_request(args, need_command(args))
    ends = terminal_ends(args.interactive) if args.tty else pipe_ends(args.interactive)
    socket = paths.hostd_socket
    code, _ = run_attached(socket, request, ends, out.progress, at_once=True)
    out.summary({"schema": "gitmoat.exec/1", "sandbox": args.sandbox, "exit": code})
    return code

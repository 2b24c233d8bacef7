"""`hostctl exec`: another command in a running sandbox."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace

from gitmoat.paths import Paths
from hostctl.arguments import need_command
from hostctl.commands.run import variable
from hostctl.failure import Failure, before_command, usage
from hostctl.output import Output
from hostctl.run.pump import run_attached
from hostctl.run.stdio import pipe_ends, terminal_ends, terminal_variables

ABOUT = """\
Runs another command in a running sandbox and returns its exit code.

As the untrusted uid it runs like the first command. As the helper it is meant for the admin: it has
an empty environment, cwd / and a private HOME, and is not in the sandbox's file system."""

_ENV = "an environment variable"
_WORKDIR = "where it starts (default: /workspace); needs /bin/sh in the sandbox"
_GO = 'CDPATH= cd -- "$1" || exit 126; shift; exec "$@"'


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
    parser.add_argument(
        "-e", "--env", action="append", default=[], type=variable, metavar="K=V", help=_ENV
    )
    parser.add_argument("-w", "--workdir", metavar="DIR", help=_WORKDIR)


def exec_request(args: Namespace, command: list[str]) -> dict[str, object]:
    if args.workdir is not None:
        command = _starting_in(args, command)
    return {
        "op": "exec",
        "sandbox": args.sandbox,
        "as": args.tier,
        "argv": command,
        "env": {**terminal_variables(args.tty, os.environ), **dict(args.env)},
        "tty": args.tty,
    }


def _starting_in(args: Namespace, command: list[str]) -> list[str]:
    """The sandbox's own shell goes there, as the untrusted uid: what lies on the way is hostile."""
    if args.tier == "helper":
        raise usage("-w does not go with --as helper", "it starts in /, and sees no workspace")
    if not args.workdir or "\0" in args.workdir:
        raise usage("-w names no directory", "-w DIR, from /workspace on where it is no full path")
    return ["/bin/sh", "-c", _GO, "hostctl", args.workdir, *command]


def main(args: Namespace, paths: Paths, out: Output) -> int:
    request = exec_request(args, need_command(args))
    ends = terminal_ends(args.interactive) if args.tty else pipe_ends(args.interactive)
    socket = paths.hostd_socket
    try:
        code, _ = run_attached(socket, request, ends, out.progress, at_once=True)
    except Failure as failure:
        raise before_command(failure) from None
    out.summary({"schema": "gitmoat.exec/1", "sandbox": args.sandbox, "exit": code})
    return code

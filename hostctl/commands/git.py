"""`hostctl git`: runs the git gate of a sandbox for the admin."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from gitmoat.paths import Paths
from hostctl.arguments import need_command
from hostctl.failure import usage
from hostctl.output import Output
from hostctl.run.pump import run_attached
from hostctl.run.stdio import pipe_ends

ABOUT = """\
Runs git fetch, push or ls-remote for a sandbox as the helper uid, in the gate's own bare
repository. A push takes the commits from /workspace, a fetch brings them there; nothing of
the workspace's configuration or hooks is read.

  hostctl git S -- fetch
  hostctl git S -- push origin agent/topic
  hostctl git S -- push origin v1.2            # a tag stays a tag
  hostctl git S -- ls-remote"""
_OPERATIONS = ("fetch", "push", "ls-remote")


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("sandbox", metavar="S", help="id or name")


def git_request(sandbox: str, words: list[str]) -> dict[str, object]:
    if words[0] not in _OPERATIONS:
        raise usage(
            f"the git gate does not run {words[0]!r}",
            "it runs fetch, push and ls-remote; for the rest use `hostctl exec S -- git ...`",
        )
    return gate_request(sandbox, words)


def gate_request(sandbox: str, words: list[str]) -> dict[str, object]:
    return {"op": "git", "sandbox": sandbox, "args": words}


def main(args: Namespace, paths: Paths, out: Output) -> int:
    request = git_request(args.sandbox, need_command(args))
    socket = paths.hostd_socket
    code, _ = run_attached(socket, request, pipe_ends(interactive=False), out.progress)
    out.summary({"schema": "gitmoat.git/1", "sandbox": args.sandbox, "exit": code})
    return code

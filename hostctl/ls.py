"""`hostctl ls`: the sandboxes of this host."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping

from hostctl.output import Output

ABOUT = "Lists the sandboxes; -q prints only their ids."
_HEADER = ("SANDBOX", "NAME", "STATE", "RUNTIME", "POLICY", "CREATED")


def arguments(parser: ArgumentParser) -> None:
    pass


def main(args: Namespace, out: Output) -> int:
    from hostctl.client import ask, items_of
    from identity.paths import Paths

    sandboxes = items_of(ask(Paths(args.root).hostd_socket, {"op": "ls"}, out.progress))
    if out.json:
        out.emit({"schema": "gitmoat.ls/1", "items": sandboxes})
    elif out.quiet:
        for sandbox in sandboxes:
            out.line(str(sandbox.get("sandbox", "")))
    elif sandboxes:
        out.table(_HEADER, [_row(sandbox) for sandbox in sandboxes])
    else:
        out.progress("no sandboxes; `hostctl run` starts one")
    return 0


def _row(sandbox: Mapping[str, object]) -> list[object]:
    from hostctl.clock import ago

    values = [sandbox.get(key) or "-" for key in ("sandbox", "name", "state", "runtime")]
    policy = sandbox.get("policy")
    name = policy.get("name") if isinstance(policy, dict) else policy
    return [*values, name or "-", ago(sandbox.get("created"))]

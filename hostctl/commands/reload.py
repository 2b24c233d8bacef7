"""`hostctl reload`: the broker reads its configuration again, sandboxes get changed policies."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any, cast

from gitmoat.paths import Paths
from hostctl.control_client import ask
from hostctl.failure import Failure
from hostctl.output import Output, need_root
from hostctl.policies.policyfile import load_policy_mapping
from hostctl.setup.brokerfiles import reload_broker

ABOUT = """\
Makes the broker read broker.toml and broker.d again, and running sandboxes take their policy from
etc/gitmoat/policies again: completely or not at all.

Nothing is restarted. A sandbox started with `--policy NAME` gets what NAME.toml says now, narrowed
as it was; connections that are no longer allowed are cut. The times of its session stay. A policy
given as a file, or by --repo, stays as it was. Of hostd.toml only the broker's key is read again;
the rest is read when hostd starts."""


def arguments(parser: ArgumentParser) -> None:
    pass


def main(args: Namespace, paths: Paths, out: Output) -> int:
    need_root("`hostctl reload`")
    policies = _policies(paths)
    reload_broker(paths, out.progress)
    _pin(paths)
    replaced = _replace(paths, policies)
    lines = ["the broker has read its configuration"]
    lines += [
        f"{each['name']}: policy replaced, {each['cut']} connections cut" for each in replaced
    ]
    out.result("\n".join(lines), {"schema": "gitmoat.reload/1", "replaced": replaced})
    return 0


def _policies(paths: Paths) -> dict[str, Any]:
    """Every installed policy; one that is invalid is an error, and nothing is changed."""
    names = sorted(path.stem for path in paths.policies.glob("*.toml"))
    return {name: load_policy_mapping(paths, name) for name in names}


def _pin(paths: Paths) -> None:
    """Makes hostd read its pinned keys; one that does not run reads them at its start."""
    try:
        ask(paths.hostd_socket, {"op": "pins"})
    except Failure as failure:
        if failure.code not in ("C103", "C106"):
            raise


def _replace(paths: Paths, policies: dict[str, Any]) -> list[dict[str, Any]]:
    """On a host without a hostd there are no sandboxes."""
    try:
        answer = ask(paths.hostd_socket, {"op": "policies", "policies": policies}, timeout=120)
    except Failure as failure:
        if failure.code != "C103":
            raise
        return []
    return cast(list[dict[str, Any]], answer["replaced"])

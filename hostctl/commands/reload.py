"""`hostctl reload`: the broker reads its configuration again, sandboxes get what has changed."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from typing import Any

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
given as a file, or by --repo, stays as it was. Git in every sandbox learns of git servers that
were added. Of hostd.toml only the broker's key is read again; for what else has changed there hostd
has to be restarted, and the keys are named."""


def arguments(parser: ArgumentParser) -> None:
    pass


def main(args: Namespace, paths: Paths, out: Output) -> int:
    need_root("`hostctl reload`")
    policies = _policies(paths)
    reload_broker(paths, out.progress)
    _pin(paths)
    answer = _replace(paths, policies)
    replaced, restart = answer["replaced"], answer["restart"]
    lines = ["the broker has read its configuration", *_told(replaced)]
    if restart:
        lines.append(f"not taken from hostd.toml: {', '.join(restart)}; `hostctl restart` takes it")
    fields = {"replaced": replaced, "restart": restart}
    out.result("\n".join(lines), {"schema": "gitmoat.reload/1", **fields})
    return 0


def _told(replaced: list[dict[str, Any]]) -> Iterator[str]:
    for each in replaced:
        if each["policy"]:
            yield f"{each['name']}: policy replaced, {each['cut']} connections cut"
        if each["upstreams"]:
            yield f"{each['name']}: git servers changed: {', '.join(each['upstreams'])}"


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


def _replace(paths: Paths, policies: dict[str, Any]) -> Mapping[str, Any]:
    """On a host without a hostd there are no sandboxes."""
    try:
        return ask(paths.hostd_socket, {"op": "policies", "policies": policies}, timeout=120)
    except Failure as failure:
        if failure.code != "C103":
            raise
        return {"replaced": [], "restart": []}

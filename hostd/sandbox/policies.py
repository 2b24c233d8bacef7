"""Replaces the policies of running sandboxes: all are read first, then replaced one by one."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any

from attrs import evolve, frozen

from hostd.atomic_file import write_whole
from hostd.failures import Failed
from hostd.network.nft import apply_ruleset
from hostd.sandbox.plan import Plan, PolicySource
from hostd.sandbox.planning import read_policy
from hostd.sandbox.sandbox import Sandbox
from hostd.sandbox.steps import save
from hostd.this_host import Host
from netpolicy.format.reading import PolicyError
from netpolicy.format.writing import policy_digest, policy_to_mapping
from netpolicy.narrowing import narrow
from netpolicy.nftables import render
from netpolicy.policy import Policy
from netpolicy.rule_kind import Options


@frozen
class Change:
    sandbox: Sandbox
    policy: Policy


def changes(sandboxes: Iterable[Sandbox], policies: Mapping[str, Any]) -> list[Change]:
    """The sandboxes whose policy changes with these installed ones. Raises Failed, and nothing
    changes, if one of them is not valid with the options that a sandbox was started with."""
    wanted = [
        Change(sandbox, _again(sandbox.plan, sandbox.plan.source, policies))
        for sandbox in sandboxes
        if sandbox.plan.source is not None and sandbox.plan.source.name in policies
    ]
    return [each for each in wanted if each.policy != each.sandbox.plan.policy]


def _again(plan: Plan, source: PolicySource, policies: Mapping[str, Any]) -> Policy:
    """The policy as `run` makes it from the file; the times of the session stay as granted."""
    options = Options(tuple(each.named for each in plan.repositories), source.push, source.hosts)
    try:
        policy = narrow(read_policy(policies[source.name]), options)
    except PolicyError as problem:
        what = f"the policy of {plan.name} would not be valid: {problem}"
        raise Failed("P101", what, exit_code=8) from None
    return evolve(policy, session=plan.policy.session)


async def replace(host: Host, change: Change) -> int:
    """Returns how many connections were cut. The broker replaces it first; if it does not,
    nothing changes."""
    sandbox, policy = change.sandbox, change.policy
    old, digest = sandbox.plan, policy_digest(policy)
    sandbox.plan = evolve(old, policy=policy)
    mapping = policy_to_mapping(policy)
    try:
        cut = await _serve(host, sandbox, json.dumps(mapping).encode(), digest)
    except BaseException:
        sandbox.plan = old
        raise
    save(host, sandbox, sandbox.step, plan=sandbox.plan.to_json())
    write_whole(sandbox.directories.run / "policy.json", json.dumps(mapping, indent=1), 0o644)
    ruleset = render(sandbox.plan.uids, digest)
    rules = await apply_ruleset(host.programs, sandbox.network(), ruleset)
    save(host, sandbox, sandbox.step, rules=rules)
    return cut


async def _serve(host: Host, sandbox: Sandbox, policy: bytes, digest: str) -> int:
    if sandbox.sidecar is None:
        raise Failed("R106", f"sandbox {sandbox.plan.name} is not running")

    def regrant(session: str, key: bytes) -> Awaitable[int]:
        return host.grants.replace_policy(sandbox, session, key)

    return await sandbox.sidecar.replace_policy(regrant, policy, digest)

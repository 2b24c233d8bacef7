"""Replaces the policies of running sandboxes, and the git servers that they know: all is read
first, then replaced one by one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from gitmoat.messages.sidecar import Allowed, format_allowed
from hostd.atomic_file import write_whole
from hostd.failures import Failed
from hostd.network.nft import apply_ruleset
from hostd.sandbox.gitconfig import write_gitconfig
from hostd.sandbox.plan import Plan, PolicySource, Repository
from hostd.sandbox.planning import read_policy
from hostd.sandbox.sandbox import Sandbox
from hostd.sandbox.steps import save
from hostd.this_host import Host
from netpolicy.format.reading import PolicyError
from netpolicy.format.writing import policy_to_mapping
from netpolicy.narrowing import narrow
from netpolicy.nftables import render
from netpolicy.policy import Policy
from netpolicy.presets.tool_files import files_for
from netpolicy.rule_kind import Options
from netpolicy.upstreams import UpstreamTable


@frozen
class Change:
    """What a running sandbox has (`old`), and is to have."""

    sandbox: Sandbox
    old: Plan
    plan: Plan

    @property
    def policy(self) -> bool:
        return self.plan.policy != self.old.policy

    @property
    def upstreams(self) -> list[str]:
        """The names of those that are new, gone or different."""
        before, after = set(self.old.upstreams.upstreams), set(self.plan.upstreams.upstreams)
        return sorted({each.name for each in before ^ after})


def write_policy(run: Path, policy: Policy) -> None:
    """What a sandbox is shown of its policy, and its package managers of the policy's indexes."""
    write_whole(run / "policy.json", json.dumps(policy_to_mapping(policy), indent=1), 0o644)
    for name, text in files_for(policy.index).items():
        path = run / name
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        if text:
            write_whole(path, text, 0o644)
        else:
            path.unlink(missing_ok=True)


def changes(
    sandboxes: Iterable[Sandbox], policies: Mapping[str, Any], upstreams: UpstreamTable
) -> list[Change]:
    """The sandboxes that change with these installed policies and these upstreams. Raises Failed,
    and nothing changes, if a policy is not valid with the options that a sandbox was started with.
    """
    wanted = [
        Change(sandbox, sandbox.plan, _again(knowing(sandbox.plan, upstreams), policies))
        for sandbox in sandboxes
    ]
    return [each for each in wanted if each.plan != each.old]


def knowing(plan: Plan, upstreams: UpstreamTable) -> Plan:
    """The plan with the broker's present upstreams, if its repositories are at the same ones."""
    repositories = []
    for each in plan.repositories:
        located = upstreams.locate(each.url)
        if located is None or located[0].name != each.upstream.name:
            return plan
        repositories.append(Repository(each.url, *located, each.directory))
    return evolve(plan, upstreams=upstreams, repositories=tuple(repositories))


def _again(plan: Plan, policies: Mapping[str, Any]) -> Plan:
    source = plan.source
    if source is None or source.name not in policies:
        return plan
    return evolve(plan, policy=_policy(plan, source, policies))


def _policy(plan: Plan, source: PolicySource, policies: Mapping[str, Any]) -> Policy:
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
    sandbox, plan = change.sandbox, change.plan
    sandbox.plan = plan
    try:
        cut = await _serve(host, change)
    except BaseException:
        sandbox.plan = change.old
        raise
    save(host, sandbox, sandbox.step, plan=plan.to_json())
    write_gitconfig(sandbox)
    if change.policy:
        write_policy(sandbox.directories.run, plan.policy)
        ruleset = render(plan.uids, plan.policy_hash)
        rules = await apply_ruleset(host.programs, sandbox.network(), ruleset)
        save(host, sandbox, sandbox.step, rules=rules)
    return cut


async def _serve(host: Host, change: Change) -> int:
    """The broker has its upstreams already: it is told of another policy alone."""
    sandbox, plan = change.sandbox, change.plan
    if sandbox.sidecar is None:
        raise Failed("R106", f"sandbox {plan.name} is not running")

    async def regrant(session: str, key: bytes) -> int:
        return await host.grants.replace_policy(sandbox, session, key) if change.policy else 0

    allowed = format_allowed(Allowed(policy=plan.policy, upstreams=plan.upstreams))
    return await sandbox.sidecar.replace_policy(regrant, allowed)

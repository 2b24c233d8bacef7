"""`hostctl policy render`: a policy as it takes effect, and what is made of it."""

from __future__ import annotations

import os
from argparse import Namespace

from hostctl.defaults import UID_BASE
from hostctl.output import Output
from hostctl.policyfile import load_policy, named_policy
from hostctl.policytext import policy_path
from hostctl.presets import expand
from hostctl.upstreamtable import known_upstreams
from identity.paths import Paths
from netpolicy.document import policy_digest, policy_to_mapping
from netpolicy.nftables import GIT_UNTRUSTED, Uids
from netpolicy.nftables import render as render_nft
from netpolicy.policy import Policy
from netpolicy.presets.table import rule_notes
from netpolicy.toml_text import policy_to_toml
from netpolicy.upstreams import gitconfig_for

_WORKSPACE = "/workspace"


def main(args: Namespace, out: Output) -> int:
    paths = Paths(args.root)
    policy, notes = _policy(paths, args.policy)
    digest = policy_digest(policy)
    text = _text(args, paths, policy, notes)
    if out.json:
        fields = {"name": policy.name, "sha256": digest, "policy": policy_to_mapping(policy)}
        out.emit({"schema": "gitmoat.policy-render/1", **fields, "notes": notes})
    else:
        out.line(f"# policy {policy.name}, sha256 {digest}\n{text}".rstrip("\n"))
    return 0


def _policy(paths: Paths, name: str) -> tuple[Policy, dict[str, list[str]]]:
    """The policy as a sandbox gets it, and where the hosts of its presets come from."""
    path = policy_path(paths, name)
    if not os.path.lexists(path):
        return named_policy(paths, name), {}
    policy, answers = expand(paths, load_policy(path))
    return policy, rule_notes(answers)


def _text(args: Namespace, paths: Paths, policy: Policy, notes: dict[str, list[str]]) -> str:
    if args.nft:
        # The uids of the first sandbox: each has three of its own.
        return render_nft(Uids(UID_BASE, UID_BASE + 1, UID_BASE + 2), policy_digest(policy))
    if args.git:
        return gitconfig_for(known_upstreams(paths), GIT_UNTRUSTED, _WORKSPACE)
    if args.dns:
        return "".join(f"{line}\n" for line in _names(policy))
    return policy_to_toml(policy, notes)


def _names(policy: Policy) -> list[str]:
    """What the sandbox's resolver answers for; every other name does not exist there."""
    return [
        f"{pattern.text:<40} {rule.effect:<5} {rule.id}"
        for rule in policy.egress
        for pattern in rule.hosts
    ]

"""`hostctl policy render`: a policy as it takes effect."""

from __future__ import annotations

import os
from argparse import Namespace

from gitmoat.paths import Paths
from hostctl.output import Output
from hostctl.policies.policyfile import load_policy, named_policy
from hostctl.policies.policytext import policy_path
from hostctl.policies.resolve_presets import expand
from netpolicy.format.document import policy_digest, policy_to_mapping
from netpolicy.format.writing import policy_to_toml
from netpolicy.policy import Policy
from netpolicy.presets.known_presets import rule_notes


def main(args: Namespace, paths: Paths, out: Output) -> int:
    policy, notes = _policy(paths, args.policy)
    digest = policy_digest(policy)
    if out.json:
        fields = {"name": policy.name, "sha256": digest, "policy": policy_to_mapping(policy)}
        out.emit({"schema": "gitmoat.policy-render/1", **fields, "notes": notes})
    else:
        out.line(f"# policy {policy.name}, sha256 {digest}")
        out.line(policy_to_toml(policy, notes).rstrip("\n"))
    return 0


def _policy(paths: Paths, name: str) -> tuple[Policy, dict[str, list[str]]]:
    """The policy as a sandbox gets it, and where the hosts of its presets come from."""
    path = policy_path(paths, name)
    if not os.path.lexists(path):
        return named_policy(paths, name), {}
    policy, answers = expand(paths, load_policy(path))
    return policy, rule_notes(answers)

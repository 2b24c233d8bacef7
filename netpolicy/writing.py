"""A Policy as the mapping that a signed grant carries: one spelling per policy, every default
written out, nothing but text, numbers, flags, lists and dicts."""

import hashlib
import json

from gitwire.receivepack import RefName
from netpolicy.keys import GIT, LIMITS, PUSH, SESSION, egress_keys, write_keys
from netpolicy.policy import EgressRule, EgressTest, GitRule, Policy, PolicyTest

VERSION = 1


def policy_to_mapping(policy: Policy) -> dict[str, object]:
    """The exact inverse of `policy_from_mapping`."""
    return {
        "version": VERSION,
        "name": policy.name,
        "session": write_keys(SESSION, policy.session),
        "limits": write_keys(LIMITS, policy.limits),
        "git": [git_to_mapping(rule) for rule in policy.git],
        "egress": [egress_to_mapping(rule) for rule in policy.egress],
        "preset": {"use": list(policy.presets)},
        "test": [_test(test) for test in policy.tests],
    }


def policy_digest(policy: Policy) -> str:
    """SHA-256, in hex, of the mapping as JSON with sorted keys."""
    text = json.dumps(policy_to_mapping(policy), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def git_to_mapping(rule: GitRule) -> dict[str, object]:
    push = {} if rule.push is None else {"push": write_keys(PUSH, rule.push)}
    return write_keys(GIT, rule) | push


def egress_to_mapping(rule: EgressRule) -> dict[str, object]:
    return write_keys(egress_keys(rule.effect, rule.scheme), rule)


def _test(test: PolicyTest | EgressTest) -> dict[str, object]:
    if isinstance(test, EgressTest):
        key = "tunnel" if test.scheme == "tls" else "http"
        return {"expect": test.expect, key: test.to.text}
    mapping: dict[str, object] = {"expect": test.expect, "who": test.who.value}
    repository = f"{test.upstream}:{test.repository.text}"
    return mapping | _operation(test, repository, test.ref)


def _operation(test: PolicyTest, repository: str, ref: RefName | None) -> dict[str, object]:
    if ref is None:
        return {"fetch": repository}
    return {"push": f"{repository} {ref.text}", "change": test.change.value}

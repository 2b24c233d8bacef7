"""A Policy as the mapping that a signed grant carries: one spelling per policy, every default
written out, nothing but text, numbers, flags, lists and dicts."""

import hashlib
import json

from gitwire.receivepack import RefName
from netpolicy.policy import (
    EgressRule,
    EgressTest,
    GitRule,
    Limits,
    Policy,
    PolicyTest,
    PushRule,
    Tier,
)
from netpolicy.units import format_duration, format_size

VERSION = 1


def policy_to_mapping(policy: Policy) -> dict[str, object]:
    """The exact inverse of `policy_from_mapping`."""
    return {
        "version": VERSION,
        "name": policy.name,
        "session": {
            "ttl": format_duration(policy.session.ttl),
            "idle": format_duration(policy.session.idle),
            "max_ttl": format_duration(policy.session.max_ttl),
        },
        "limits": _limits(policy.limits),
        "git": [_git_rule(rule) for rule in policy.git],
        "egress": [egress_to_mapping(rule) for rule in policy.egress],
        "preset": {"use": list(policy.presets)},
        "test": [_test(test) for test in policy.tests],
    }


def policy_digest(policy: Policy) -> str:
    """SHA-256, in hex, of the mapping as JSON with sorted keys."""
    text = json.dumps(policy_to_mapping(policy), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _limits(limits: Limits) -> dict[str, object]:
    return {
        "git_requests_per_minute": limits.git_requests_per_minute,
        "git_concurrency": limits.git_concurrency,
        "push_max": format_size(limits.push_max),
        "fetch_max": format_size(limits.fetch_max),
        "session_max": format_size(limits.session_max),
        "egress_connections": limits.egress_connections,
        "egress_per_minute": limits.egress_per_minute,
        "egress_max": format_size(limits.egress_max),
        "egress_idle": format_duration(limits.egress_idle),
        "free_refusals": limits.free_refusals,
    }


def _git_rule(rule: GitRule) -> dict[str, object]:
    mapping: dict[str, object] = {
        "id": rule.id,
        "effect": rule.effect,
        "repos": [pattern.text for pattern in rule.repos],
        "fetch": rule.fetch,
        "who": [tier.value for tier in Tier if tier in rule.who],
    }
    if rule.push is not None:
        mapping["push"] = _push(rule.push)
    return mapping


def _push(rule: PushRule) -> dict[str, object]:
    return {
        "branches": [pattern.text.removeprefix("refs/heads/") for pattern in rule.branches],
        "tags": [pattern.text.removeprefix("refs/tags/") for pattern in rule.tags],
        "refs": [pattern.text for pattern in rule.refs],
        "create": rule.create,
        "update": rule.update,
        "delete": rule.delete,
        "workflows": rule.workflows,
        "options": rule.options,
    }


def egress_to_mapping(rule: EgressRule) -> dict[str, object]:
    mapping: dict[str, object] = {
        "id": rule.id,
        "effect": rule.effect,
        "hosts": [pattern.text for pattern in rule.hosts],
        "ports": list(rule.ports),
    }
    return mapping if rule.effect == "deny" else mapping | _allowance(rule)


def _allowance(rule: EgressRule) -> dict[str, object]:
    mapping: dict[str, object] = {
        "scheme": rule.scheme,
        "allow_shared": rule.allow_shared,
        "allow_private": rule.allow_private,
    }
    return mapping | ({"methods": list(rule.methods)} if rule.scheme == "http" else {})


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

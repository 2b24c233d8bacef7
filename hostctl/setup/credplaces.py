"""The repository at which a credential is tried: one that a policy names without a wildcard."""

from __future__ import annotations

from gitmoat.paths import Paths
from hostctl.setup.brokerfiles import configured
from netpolicy.format.document import PolicyError, parse_policy


def first_repository(paths: Paths, credential: str) -> str | None:
    """`UPSTREAM:PATH`, or None when every policy has only patterns."""
    upstreams = {
        name
        for name, (_, values) in configured(paths, "upstream").items()
        if values.get("provider") == credential
    }
    for path in sorted(paths.policies.glob("*.toml")):
        try:
            policy = parse_policy(path.read_text(encoding="utf-8"))
        except (PolicyError, OSError, ValueError):
            continue  # `hostctl policy check` reports it
        for rule in policy.git:
            for repo in rule.repos:
                if rule.fetch and repo.upstream in upstreams and "*" not in repo.path:
                    return repo.text
    return None

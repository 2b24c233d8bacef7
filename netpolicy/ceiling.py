"""Whether a policy is within the most that its host may grant, whatever the policy says."""

from netpolicy.format.units import format_duration
from netpolicy.policy import Ceiling, Policy
from netpolicy.rule_kinds import KINDS


def exceeded(policy: Policy, ceiling: Ceiling) -> str | None:
    """What in a policy exceeds the ceiling, or None."""
    if ceiling.ttl is not None and policy.session.max_ttl > ceiling.ttl:
        return f"sessions of more than {format_duration(ceiling.ttl)}"
    for kind in KINDS:
        for rule in kind.rules(policy):
            if rule.effect == "allow" and (found := kind.above(rule, ceiling)) is not None:
                return found
    return None

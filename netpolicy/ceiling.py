"""Whether a policy is within the most that its host may grant, whatever the policy says."""

from collections.abc import Sequence
from typing import Any, Final

from attrs import evolve

from netpolicy.policy import Ceiling, Policy
from netpolicy.rule_kind import Kind
from netpolicy.rule_kinds import KINDS

ANY: Final = "any"


def allowed_kinds(allow: object, kinds: Sequence[Kind[Any, Any]] = KINDS) -> tuple[str, ...]:
    """The names of the kinds of rules that an enrolment allows, by its `allow`: a list of names, or
    "any", which takes in the kinds of later versions. An enrolment without it is from 0.2.0 or
    before, and meant the kinds of then."""
    if allow == ANY:
        return tuple(kind.name for kind in kinds)
    if allow is None:
        return tuple(kind.name for kind in kinds if kind.always_written)
    named = allow if isinstance(allow, list | frozenset) else ()
    return tuple(kind.name for kind in kinds if kind.name in named)


def exceeded(policy: Policy, ceiling: Ceiling) -> str | None:
    """What in a policy exceeds the ceiling, or None. Its times do not: see `shortened`."""
    found = (kind.exceeded(policy, ceiling) for kind in KINDS)
    return next((what for what in found if what is not None), None)


def shortened(policy: Policy, ceiling: Ceiling) -> Policy:
    """The policy with sessions that last no longer than the ceiling's `ttl`: a session that ends
    earlier has no right that its host may not grant."""
    if ceiling.ttl is None:
        return policy
    times = policy.session
    ttl, longest = (min(each, ceiling.ttl) for each in (times.ttl, times.max_ttl))
    return evolve(policy, session=evolve(times, ttl=ttl, max_ttl=longest))

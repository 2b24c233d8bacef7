"""A policy made of the options of one run, or a named policy made narrower by them: never wider, by
anything."""

from typing import Any

from attrs import evolve

from netpolicy.format.document import policy_from_mapping
from netpolicy.format.reading import PolicyError
from netpolicy.format.units import format_duration
from netpolicy.format.writing import VERSION
from netpolicy.policy import Policy, Session
from netpolicy.rule_kind import Options
from netpolicy.rule_kinds import KINDS


def adhoc_policy(name: str, options: Options) -> Policy:
    """What `hostctl run` means without `--policy`: what is named, and nothing else."""
    data: dict[str, object] = {"version": VERSION, "name": name}
    if options.ttl is not None:
        data["session"] = {"ttl": format_duration(options.ttl)}
    try:
        policy = policy_from_mapping(data)
    except PolicyError as error:
        path = "--ttl" if error.path.startswith("session") else error.path
        raise PolicyError(path, error.what, error.hint) from None
    rules: dict[str, Any] = {kind.name: kind.adhoc(options) for kind in KINDS}
    return evolve(policy, **rules)


def narrow(policy: Policy, options: Options) -> Policy:
    """What both the policy and the options allow; an option that is not given takes nothing."""
    rules: dict[str, Any] = {kind.name: kind.narrow(policy, options) for kind in KINDS}
    session = policy.session if options.ttl is None else _shorter(policy.session, options.ttl)
    # Its own tests were about the whole policy.
    return evolve(policy, **rules, session=session, tests=())


def _shorter(session: Session, ttl: int) -> Session:
    if ttl < 1:
        raise PolicyError("--ttl", "no time at all")
    if ttl > session.ttl:
        hint = "give a shorter one, or change session.ttl in the policy"
        allowed = format_duration(session.ttl)
        raise PolicyError("--ttl", f"longer than the policy's {allowed}", hint)
    return evolve(session, ttl=ttl)

"""What a valid policy may still say by mistake: wider than it looks, or of no effect."""

from netpolicy.policy import Policy, Session
from netpolicy.rule_kind import CheckContext, IsShared, Remark
from netpolicy.rule_kinds import KINDS
from netpolicy.upstreams import UpstreamTable


def lint(policy: Policy, is_shared: IsShared, upstreams: UpstreamTable) -> list[Remark]:
    """`upstreams` without any are not known."""
    found: list[Remark] = []
    idle = policy.session.idle
    # The default may be longer than the session: nobody wrote it there.
    if idle != Session().idle and idle > policy.session.ttl:
        found.append(
            Remark("session.idle", "is longer than session.ttl", "it never ends a session")
        )
    context = CheckContext(upstreams, is_shared)
    return [*found, *(remark for kind in KINDS for remark in kind.lint(policy, context))]

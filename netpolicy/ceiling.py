"""The most that one host may grant, whatever a policy on it says."""

from collections.abc import Sequence

from attrs import frozen

from netpolicy.matchers import RepoPattern
from netpolicy.narrowing import covers_path
from netpolicy.policy import GitRule, Policy
from netpolicy.units import format_duration


@frozen
class Ceiling:
    """None, or an empty list of repositories, sets no bound of that kind."""

    repos: tuple[RepoPattern, ...] = ()
    push: bool = True
    ttl: int | None = None

    def exceeded(self, policy: Policy) -> str | None:
        """What of a policy is above the ceiling, or None."""
        if self.ttl is not None and policy.session.max_ttl > self.ttl:
            return f"sessions of more than {format_duration(self.ttl)}"
        for rule in policy.git:
            if rule.effect == "allow" and (found := self._above(rule)) is not None:
                return found
        return None

    def _above(self, rule: GitRule) -> str | None:
        if rule.push is not None and not self.push:
            return "pushing"
        for pattern in rule.repos:
            if self.repos and not _covered(pattern, self.repos):
                return pattern.text
        return None


def _covered(pattern: RepoPattern, within: Sequence[RepoPattern]) -> bool:
    return any(
        wide.upstream == pattern.upstream and covers_path(wide.path, pattern.path)
        for wide in within
    )

"""The kinds of rules, in the order in which a document is written and checked."""

from collections.abc import Iterator
from typing import Any, Final

from netpolicy.egress_rules.record import EGRESS
from netpolicy.git_rules.record import GIT
from netpolicy.policy import Policy
from netpolicy.rule_kind import Kind, Rule, Test

KINDS: Final[tuple[Kind[Any, Any], ...]] = (GIT, EGRESS)


def rules_of(policy: Policy) -> Iterator[Rule]:
    for kind in KINDS:
        yield from kind.rules(policy)


def kind_of_test(test: Test) -> Kind[Any, Any]:
    return next(kind for kind in KINDS if isinstance(test, kind.test))

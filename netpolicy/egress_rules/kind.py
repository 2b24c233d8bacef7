"""The record of `[[egress]]` rules."""

from typing import Final

from netpolicy.egress_rules import asking, document, learning, lint, narrowing, words
from netpolicy.kind import Kind
from netpolicy.policy import EgressRule, EgressTest

EGRESS: Final = Kind(
    name="egress",
    rule=EgressRule,
    read=document.read_rule,
    write=document.write_rule,
    adhoc=narrowing.adhoc,
    narrow=narrowing.narrow,
    above=lambda rule, ceiling: None,  # a ceiling bounds git and times
    words=words.rule_words,
    is_whole=lambda rule: rule.effect == "deny" and not rule.ports,
    changes=words.changes,
    lint=lint.lint,
    learn=learning.learn,
    test=EgressTest,
    test_keys=tuple(document.TESTS),
    read_test=document.read_test,
    write_test=document.write_test,
    test_words=words.test_words,
    decide=asking.decide,
    operations=asking.OPERATIONS,
    as_test=asking.as_test,
    nearest=asking.nearest,
)

"""The record of `[[egress]]` rules."""

from typing import Final

from netpolicy.egress_rules import asking, learning, options, remarks, tables, words
from netpolicy.policy import EgressBound, EgressRule, EgressTest
from netpolicy.rule_kind import Kind

EGRESS: Final = Kind(
    name="egress",
    rule=EgressRule,
    read=tables.read_rule,
    write=tables.write_rule,
    always_written=True,
    adhoc=options.adhoc,
    narrow=options.narrow,
    bound=EgressBound,
    above=options.above,
    words=words.rule_words,
    is_whole=lambda rule: rule.effect == "deny" and not rule.ports,
    changes=words.changes,
    lint=remarks.lint,
    learn=learning.learn,
    test=EgressTest,
    test_keys=tuple(tables.TESTS),
    read_test=tables.read_test,
    write_test=tables.write_test,
    test_words=words.test_words,
    decide=asking.decide,
    operations=asking.OPERATIONS,
    as_test=asking.as_test,
    nearest=asking.nearest,
)

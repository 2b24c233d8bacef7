"""The record of `[[git]]` rules."""

from typing import Final

from netpolicy.git_rules import asking, options, remarks, tables, words
from netpolicy.policy import GitBound, GitRule, GitTest
from netpolicy.rule_kind import Kind, Learned

GIT: Final = Kind(
    name="git",
    rule=GitRule,
    read=tables.read_rule,
    write=tables.write_rule,
    always_written=True,
    adhoc=options.adhoc,
    narrow=options.narrow,
    bound=GitBound,
    above=options.above,
    words=words.words_with_tiers,
    is_whole=lambda rule: rule.denies_everything,
    changes=words.changes,
    lint=remarks.lint,
    # Which repositories a sandbox gets is decided by its owner, never by what it asked for.
    learn=lambda policy, refused, presets, context: Learned(),
    test=GitTest,
    test_keys=tables.TEST_KEYS,
    read_test=tables.read_test,
    write_test=tables.write_test,
    test_words=words.test_words,
    decide=asking.decide,
    operations=asking.OPERATIONS,
    as_test=asking.as_test,
    nearest=asking.nearest,
)

"""The record of `[[git]]` rules."""

from typing import Final

from netpolicy.git_rules import asking, document, lint, narrowing, words
from netpolicy.kind import Kind, Learned
from netpolicy.policy import GitRule, GitTest

GIT: Final = Kind(
    name="git",
    rule=GitRule,
    read=document.read_rule,
    write=document.write_rule,
    adhoc=narrowing.adhoc,
    narrow=narrowing.narrow,
    above=narrowing.above,
    words=words.words_with_tiers,
    is_whole=lambda rule: rule.denies_everything,
    changes=words.changes,
    lint=lint.lint,
    # Which repositories a sandbox gets is decided by its owner, never by what it asked for.
    learn=lambda policy, refused, presets, context: Learned(),
    test=GitTest,
    test_keys=document.TEST_KEYS,
    read_test=document.read_test,
    write_test=document.write_test,
    test_words=words.test_words,
    decide=asking.decide,
    operations=asking.OPERATIONS,
    as_test=asking.as_test,
    nearest=asking.nearest,
)

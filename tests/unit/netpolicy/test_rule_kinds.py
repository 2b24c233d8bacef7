"""A kind of rule is one record, and whoever deals with rules goes through the table of records."""

import ast
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from attrs import NOTHING, fields

import netpolicy
from hostctl.commands import policy as verb
from netpolicy.policy import Policy
from netpolicy.rule_kind import Kind
from netpolicy.rule_kinds import KINDS

THROUGH_THE_TABLE = (
    "netpolicy/ceiling.py",
    "netpolicy/difference.py",
    "netpolicy/format/document.py",
    "netpolicy/expectations.py",
    "netpolicy/rule_kind.py",
    "netpolicy/lint.py",
    "netpolicy/narrowing.py",
    "netpolicy/format/writing.py",
    "hostctl/policies/check.py",
    "hostctl/policies/diff.py",
    "hostctl/policies/explain_decision.py",
    "hostctl/policies/learn.py",
    "hostctl/policies/render.py",
)
ROOT = Path(netpolicy.__file__).parent.parent
OF_ONE_KIND = {kind.rule.__name__ for kind in KINDS} | {kind.test.__name__ for kind in KINDS}


def test_no_part_of_a_record_can_be_forgotten() -> None:
    assert {each.name for each in fields(Kind) if each.default is not NOTHING} == set()


# What is done with rules, and the parts of a record that do it.
DONE_WITH_RULES = {
    "parse": ("name", "rule", "read"),
    "write": ("write", "always_written"),
    "narrow": ("adhoc", "narrow"),
    "ceiling": ("bound", "above"),
    "diff": ("words", "is_whole", "changes"),
    "lint": ("lint",),
    "learn": ("learn",),
    "test": ("test", "test_keys", "read_test", "write_test", "test_words"),
    "explain": ("decide", "operations", "as_test"),
    "nearest": ("nearest",),
}


def test_a_record_has_nothing_but_what_is_done_with_rules() -> None:
    parts = [part for each in DONE_WITH_RULES.values() for part in each]
    assert sorted(parts) == sorted(each.name for each in fields(Kind))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("lacking", DONE_WITH_RULES)
def test_a_kind_that_lacks_one_of_them_cannot_be_made(kind: Kind[Any, Any], lacking: str) -> None:
    parts = {each.name: getattr(kind, each.name) for each in fields(Kind)}
    assert Kind(**parts) == kind
    for part in DONE_WITH_RULES[lacking]:
        with pytest.raises(TypeError, match=part):
            Kind(**{name: value for name, value in parts.items() if name != part})


def test_each_kind_of_rule_that_a_policy_has_is_in_the_table() -> None:
    hints = get_type_hints(Policy)
    rules = {name: hint for name, hint in hints.items() if "Rule" in str(hint)}
    assert {name: hint.__args__ for name, hint in rules.items()} == {
        kind.name: (kind.rule, ...) for kind in KINDS
    }


def of_one_kind(source: str) -> set[str]:
    """What of a module's source is about one kind alone."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").endswith("_rules"):
            found.add(node.module or "")
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module or ""} if "_rules." in (node.module or "") else set()
            found |= {each.name for each in node.names} & OF_ONE_KIND
        elif isinstance(node, ast.Attribute) and node.attr in {kind.name for kind in KINDS}:
            found.add(f".{node.attr}")
        elif isinstance(node, ast.Constant) and node.value in {kind.name for kind in KINDS}:
            found.add(str(node.value))
    return found


@pytest.mark.parametrize("path", THROUGH_THE_TABLE)
def test_what_deals_with_rules_knows_no_kind_by_name(path: str) -> None:
    assert of_one_kind((ROOT / path).read_text()) == set()


@pytest.mark.parametrize(
    "planted",
    ["policy.git", 'kind.name == "egress"', "from netpolicy.policy import GitRule",
     "from netpolicy.egress_rules import remarks", "from netpolicy.git_rules.remarks import lint"],
)  # fmt: skip
def test_a_kind_that_is_known_by_name_is_found(planted: str) -> None:
    assert of_one_kind(planted)


@pytest.mark.parametrize("each", [lambda kind: kind.test_keys, lambda kind: kind.operations])
def test_a_key_of_a_test_and_an_operation_belong_to_one_kind(each: Any) -> None:
    names = [name for kind in KINDS for name in each(kind)]
    assert len(names) == len(set(names))


def test_the_verb_asks_what_the_kinds_answer() -> None:
    assert sorted(verb.OPERATIONS) == sorted(name for kind in KINDS for name in kind.operations)

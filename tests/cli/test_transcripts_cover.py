"""Every verb has a transcript of success, of a refusal, of bad input and of --json."""

from __future__ import annotations

import json
import re
from argparse import _SubParsersAction
from collections.abc import Iterator

import pytest

from gitmoat.codes import CODES
from hostctl.arguments import VERBS, verb_parser
from tests.cli.steps import Step, typed

KINDS = ("success", "refusal", "bad input", "--json")
# Verb, kind: why there is none here.
_NEVER_REFUSES = "it reads nothing that could be missing or forbidden"
ELSEWHERE = {
    ("demo", "success"): "a minute long: tests/cli/test_demo.py",
    ("demo", "--json"): "tests/cli/test_demo.py",
    ("demo", "refusal"): "exit 6 needs a broken promise: tests/unit/hostctl/commands/test_demo.py",
    ("completion", "refusal"): _NEVER_REFUSES,
    ("completion", "--json"): "what it prints is read by a shell",
    ("audit query", "refusal"): "records that do not match are no error",
    ("logs", "--json"): "what it prints is the command's",
    ("up", "refusal"): "tests/live/test_starting_and_stopping.py: what is in its way, it names",
    ("restart", "refusal"): "as `up`: what is in its way, it names",
    ("host ls", "refusal"): "it reads files of root's",
    ("upstream ls", "refusal"): "it reads files of root's",
    ("policy presets", "refusal"): "what is not configured gives no hosts",
}
_THEIRS = ("run", "exec", "git")  # their exit code may be the command's own
_CODE = re.compile(r"[\[(]([A-Z]\d{3})[\])]")
_ERROR = re.compile(r"^error: (.*) \[([A-Z]\d{3})\]\n(?:why: (.+)\nfix: (.+)$)?", re.MULTILINE)


def tree() -> Iterator[str]:
    for verb in VERBS:
        subs = [a for a in verb_parser(verb)._actions if isinstance(a, _SubParsersAction)]
        yield from (f"{verb} {name}" for name in subs[0].choices) if subs else [verb]


TREE = frozenset(tree())


def verb_of(step: Step) -> str:
    words = [word for word in step.options if not word.startswith("-")]
    return next((name for name in (" ".join(words[:2]), *words[:1]) if name in TREE), "")


def kinds_of(step: Step) -> set[str]:
    found = set()
    asked_json = "--json" in step.options
    if step.exit_code == 0:
        found.add("--json" if asked_json else "success")
    elif step.exit_code == 2:
        found.add("bad input")
    elif _CODE.search(step.expected) or verb_of(step) not in _THEIRS:
        found.add("refusal")
    return found


def test_every_verb_is_seen_in_every_way() -> None:
    seen = {(verb_of(step), kind) for step in typed() for kind in kinds_of(step)}
    missing = {(verb, kind) for verb in TREE for kind in KINDS} - seen
    assert missing - ELSEWHERE.keys() == set()
    assert ELSEWHERE.keys() - missing == set(), "there is one now: take it out of the table"


@pytest.mark.parametrize("step", list(typed()), ids=lambda step: step.typed)
def test_each_error_has_a_code_a_reason_and_a_fix_that_say_three_things(step: Step) -> None:
    for what, code, why, fix in _ERROR.findall(step.expected):
        assert code in CODES
        assert why and fix
        assert len({what, why, fix}) == 3
    if step.exit_code in (2, 4, 5, 7, 8) and verb_of(step) not in ("status", *_THEIRS):
        assert _ERROR.search(step.expected)
    if "--json" in step.options and verb_of(step) not in ("run", "logs"):
        *_, last = (line for line in step.expected.splitlines() if line.startswith("{"))
        if "[...]" not in last:
            assert "schema" in json.loads(last) or verb_of(step).startswith("audit")

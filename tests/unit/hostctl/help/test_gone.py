"""What earlier versions understood: no parser takes it, and the answer says what to type."""

from __future__ import annotations

from argparse import ArgumentParser, _SubParsersAction

import pytest

from hostctl.arguments import VERBS, parse, verb_parser
from hostctl.failure import Failure
from hostctl.help.gone import GONE
from tests.cli.steps import typed


def actions(parser: ArgumentParser) -> dict[str, ArgumentParser]:
    found = [each for each in parser._actions if isinstance(each, _SubParsersAction)]
    return dict(found[0].choices) if found else {}


@pytest.mark.parametrize("spelling", GONE)
def test_the_old_spelling_is_answered_with_what_to_type(spelling: str) -> None:
    words = spelling.split()
    with pytest.raises(Failure) as caught:
        parse(words, "/")
    failure = caught.value
    assert (failure.code, failure.exit_code) == ("C105", 2)
    assert failure.what == f"`hostctl {spelling}` was removed"
    assert (failure.why, failure.fix) == GONE[spelling]


@pytest.mark.parametrize("spelling", GONE)
def test_no_parser_takes_what_is_gone(spelling: str) -> None:
    verb, *rest = spelling.split()
    if not rest:
        assert verb not in VERBS
        return
    parser = verb_parser(verb)
    if not rest[0].startswith("-"):
        inner = actions(parser).get(rest.pop(0))
        assert (inner is None) == (not rest), "an action that is gone, or an option of one"
        parser = parser if inner is None else inner
    assert not {*rest} & parser._option_string_actions.keys()


def test_each_has_a_transcript() -> None:
    shown = "\n".join(step.expected for step in typed())
    assert [
        each for each in GONE if f"error: `hostctl {each}` was removed [C105]" not in shown
    ] == []


@pytest.mark.parametrize(
    "argv",
    [
        ["policy", "init", "--write", "-"],
        ["run", "--", "hostctl", "version"],
        ["exec", "s", "--", "up", "--foreground"],
        ["logs", "version"],
    ],
)
def test_what_only_looks_like_it_is_taken(argv: list[str]) -> None:
    parse(argv, "/")

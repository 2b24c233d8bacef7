"""What users of docker type: no parser takes it, and the answer says what does the same here."""

from __future__ import annotations

import pytest

from hostctl.arguments import VERBS, parse, verb_parser
from hostctl.failure import Failure
from hostctl.help import habits

OPTIONS = [(verb, option) for verb, each in habits.OPTIONS.items() for option in each]


@pytest.mark.parametrize("verb", habits.VERBS)
def test_a_verb_of_docker_is_answered_with_what_to_type(verb: str) -> None:
    assert verb not in VERBS
    with pytest.raises(Failure) as caught:
        parse([verb, "name"], "/")
    assert caught.value.exit_code == 2
    assert (caught.value.why, caught.value.fix) == habits.VERBS[verb]


@pytest.mark.parametrize("verb, option", OPTIONS)
@pytest.mark.parametrize("form", ["apart", "joined"])
def test_an_option_of_docker_is_answered_with_what_to_type(
    verb: str, option: str, form: str
) -> None:
    value = "/a:/b"
    joined = f"{option}={value}" if option.startswith("--") else option + value
    words = [option, value] if form == "apart" else [joined]
    with pytest.raises(Failure) as caught:
        parse([verb, *words, "S", "--", "true"], "/")
    assert caught.value.what == f"`hostctl {verb}` has no option {option}"
    assert (caught.value.why, caught.value.fix) == habits.OPTIONS[verb][option]


@pytest.mark.parametrize("verb, option", OPTIONS)
def test_no_parser_takes_it(verb: str, option: str) -> None:
    known = {name for each in verb_parser(verb)._actions for name in each.option_strings}
    assert option not in known - {"-v"}


def test_what_the_command_is_given_is_its_own() -> None:
    args = parse(["run", "-v", "--", "docker", "run", "-p", "80:80", "-v", "/a:/b"], "/")
    assert (args.verbose, args.command[2:4]) == (1, ["-p", "80:80"])


@pytest.mark.parametrize("verb", habits.VERBS)
def test_what_is_to_be_typed_is_understood(verb: str) -> None:
    (_, fix) = habits.VERBS[verb]
    typed = fix.split("hostctl ", 1)[1].split(",")[0]
    before, _, command = typed.partition(" -- ")
    words = [*before.split(), *(["--", *command.split()] if command else [])]
    assert parse(words, "/").verb in VERBS

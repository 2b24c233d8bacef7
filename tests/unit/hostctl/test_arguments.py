"""The command line: one verb, its options, and what to run behind a --."""

from __future__ import annotations

import pytest

from hostctl.arguments import VERBS, parse, verb_module
from hostctl.failure import Failure
from hostctl.help.helptext import HELP


def refused(*argv: str) -> Failure:
    with pytest.raises(Failure) as caught:
        parse(argv, "/")
    return caught.value


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_a_module_and_a_line_in_the_help(verb: str) -> None:
    module = verb_module(verb)
    assert module.ABOUT and callable(module.main) and callable(module.arguments)
    assert f"\n  {verb:<10} " in HELP


def test_help_fits_a_terminal() -> None:
    assert max(map(len, HELP.splitlines())) <= 80


@pytest.mark.parametrize(
    "argv",
    [
        ("--root", "/x", "--json", "-q", "-vv", "--no-color", "ls"),
        ("ls", "--root", "/x", "--json", "-q", "-vv", "--no-color"),
        ("--root=/x", "-q", "ls", "--json", "-vv", "--no-color"),
    ],
)
def test_global_options_go_before_or_after_the_verb(argv: tuple[str, ...]) -> None:
    args = parse(argv, "/")
    given = (args.root, args.json, args.quiet, args.verbose, args.no_color)
    assert given == ("/x", True, True, 2, True)


def test_global_options_go_after_an_action_too() -> None:
    args = parse(["--root", "/x", "cred", "ls", "--json"], "/")
    assert (args.root, args.json, args.action) == ("/x", True, "ls")


def test_the_root_is_made_absolute_and_defaults_to_the_environments() -> None:
    assert parse(["ls"], "/srv/moat").root == "/srv/moat"
    assert parse(["ls", "--root", "/a/../b"], "/").root == "/b"


def test_what_stands_behind_the_dashes_is_never_read_as_an_option() -> None:
    args = parse(["run", "--rm", "--", "git", "--version", "--", "-q"], "/")
    assert args.command == ["git", "--version", "--", "-q"]
    assert args.rm and not args.quiet


def test_it_is_two_options() -> None:
    args = parse(["exec", "-it", "s", "--", "sh"], "/")
    assert args.interactive and args.tty


@pytest.mark.parametrize(
    ("argv", "part"),
    [
        (["--json"], "no command given"),
        (["frob"], "there is no command 'frob'"),
        (["ls", "extra"], "unrecognized arguments: extra"),
        (["--frob", "ls"], "unrecognized arguments: --frob"),
        (["ls", "--jso"], "unrecognized arguments: --jso"),
        (["--root"], "expected one argument"),
        (["inspect"], "required: S"),
        (["session"], "required: ACTION"),
        (["policy", "guess", "x"], "invalid choice"),
        (["run", "--ttl", "forever", "--", "x"], "not a duration"),
        (["run", "-e", "1A=x", "--", "x"], "write K=V"),
        (["cred", "add", "x", "--file", "f", "--stdin"], "not allowed with"),
    ],
)
def test_misuse_is_exit_code_2(argv: list[str], part: str) -> None:
    failure = refused(*argv)
    assert part in failure.what
    assert (failure.code, failure.exit_code) == ("C105", 2)


def test_a_command_without_dashes_is_told_where_they_go() -> None:
    assert "-- CMD..." in refused("run", "ls", "-l").fix
    assert "-- fetch|push|ls-remote" in refused("git", "s", "push").fix

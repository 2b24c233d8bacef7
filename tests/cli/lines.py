"""Command lines nobody would type, from the parsers that have to read them."""

from __future__ import annotations

import io
import random
import re
import sys
from argparse import Action, ArgumentParser, _SubParsersAction
from collections.abc import Iterator

import pytest

from gitmoat.codes import CODES
from hostctl.__main__ import main
from hostctl.arguments import VERBS, verb_parser

# They start daemons, change the host, or follow a journal until they are stopped.
NOT_HERE = {"demo", "up", "restart", "init", "doctor"}
ENDLESS = {"-f", "--watch"}
JUNK = (
    "", "-", "--", "---", "x", "ci", "a b", "\u00e9", "\x1b[31m", "\n", "0", "-1", "8h", "99d",
    "1.5", "1e309", "nan", "10m", "999999999999999999999g", "K=V", "=", "../../x", "/dev/null",
    "/", ".", "nowhere.toml", "agents.toml", "corp:acme/app", "corp:", ":", "S:", "'", '"',
    "https://git.example/a/b", "refs/heads/main", "refs/heads/..", "main", "fetch", "push", "all",
    "G101", "%s%n", "a" * 5000, "--json", "-q", "-vv", "--help", "--no-such-option",
    "--root=/nonexistent/root",
)  # fmt: skip
EXITS = {0, 1, 2, 3, 4, 5, 6, 7, 8, 124, 125, 126, 127, 130}
ERROR = re.compile(r"^error: .* \[([A-Z][0-9]{3})\]\nwhy: .+\nfix: .+$", re.MULTILINE)


def parsers(parser: ArgumentParser) -> Iterator[tuple[list[str], ArgumentParser]]:
    """A verb's parser, or those of its actions with the word that leads there."""
    subs = [action for action in parser._actions if isinstance(action, _SubParsersAction)]
    if not subs:
        yield [], parser
    for name, sub in subs[0].choices.items() if subs else ():
        yield [name], sub


SHAPES = [
    ([verb, *words], parser._actions)
    for verb in VERBS
    if verb not in NOT_HERE
    for words, parser in parsers(verb_parser(verb))
]


def value(dice: random.Random, action: Action, sandbox: str = "") -> str:
    if sandbox and action.metavar == "S" and dice.random() < 0.7:
        return sandbox
    if action.choices is not None and dice.random() < 0.7:
        return str(dice.choice(list(action.choices)))
    return dice.choice(JUNK)


def line(dice: random.Random, sandbox: str = "") -> list[str]:
    """`sandbox` is one that there is, and takes many places of a sandbox."""
    words, actions = dice.choice(SHAPES)
    made = list(words) if dice.random() < 0.95 else [dice.choice(JUNK)]
    for action in actions:
        if not action.option_strings:
            made += [value(dice, action, sandbox)] if dice.random() < 0.9 else []
        elif dice.random() < 0.2 and ENDLESS.isdisjoint(action.option_strings):
            made.append(dice.choice(action.option_strings))
            made += [value(dice, action, sandbox)] if action.nargs is None else []
    made += [dice.choice(JUNK)] if dice.random() < 0.2 else []
    made += ["--", dice.choice(JUNK)] if dice.random() < 0.3 else []
    if dice.random() < 0.2:
        made.insert(dice.randrange(len(made) + 1), dice.choice(JUNK))
    return made


def check_line(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> int:
    """Ends with an exit code and, if it failed, with one error that has code, why and fix."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    try:
        code = main(words)
    except SystemExit as ended:  # argparse's own --help
        code = int(ended.code or 0)
    printed = capsys.readouterr()
    assert "Traceback" not in printed.out + printed.err or "-vv" in words, words
    if "error: " in printed.err:
        found = ERROR.search(printed.err)
        assert found is not None, (words, printed.err)
        assert found[1] in CODES, words
        assert found[1] != "C107", (words, printed.err)
    return code

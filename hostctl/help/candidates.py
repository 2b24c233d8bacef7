"""What can be typed next, taken from the parsers that read the command line."""

from __future__ import annotations

import re
from argparse import Action, ArgumentParser, _SubParsersAction
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from gitmoat.paths import Paths
from hostctl.arguments import VERBS, verb_parser
from hostctl.control_client import ask, items_of
from hostctl.failure import Failure
from hostctl.help.helptext import HELP

FILES = ":files"
_QUICK = 2.0
# Importing every verb for its description would take too long for one key press.
_VERB_LINE = re.compile(r"^  ([a-z]+) +(.+)$", re.MULTILINE)


def candidates(words: Sequence[str], root: str) -> list[str]:
    """`words` are those behind `hostctl`, the last one unfinished: `word` or `word<TAB>about`."""
    *before, current = words or [""]
    root = _root(before, root)
    found = list(_candidates(before, Paths(root)))
    return [word for word in found if word == FILES or word.startswith(current)]


def _root(before: Sequence[str], root: str) -> str:
    given = [after for word, after in pairwise(before) if word == "--root"]
    return given[-1] if given else root


def _candidates(before: Sequence[str], paths: Paths) -> Iterator[str]:
    verb, rest = _verb(before)
    if verb is None:
        about = dict(_VERB_LINE.findall(HELP))
        yield from (f"{name}\t{about[name]}" for name in VERBS)
        return
    if verb not in VERBS:
        return
    if "--" in rest:
        yield FILES
        return
    yield from _of_parser(verb_parser(verb), rest, paths)


def _verb(before: Sequence[str]) -> tuple[str | None, list[str]]:
    place = 0
    while place < len(before) and before[place].startswith("-"):
        place += 2 if before[place] == "--root" else 1
    if place >= len(before):
        return None, []
    return before[place], list(before[place + 1 :])


def _of_parser(parser: ArgumentParser, rest: list[str], paths: Paths) -> Iterator[str]:
    """Walks the words through the parser's actions, down into sub-commands."""
    positionals = [action for action in parser._actions if not action.option_strings]
    waiting: Action | None = None
    for place, word in enumerate(rest):
        if waiting is not None:
            waiting = None
        elif word.startswith("-") and len(word) > 1:
            waiting = _taking(parser, word)
        elif positionals and isinstance(positionals[0], _SubParsersAction):
            sub = positionals[0].choices.get(word)
            if sub is not None:
                yield from _of_parser(sub, rest[place + 1 :], paths)
            return
        elif positionals and positionals[0].nargs not in ("+", "*"):
            positionals.pop(0)
    if waiting is not None:
        yield from _values(waiting, paths)
        return
    if positionals:
        yield from _values(positionals[0], paths)
    yield from _options(parser)


def _taking(parser: ArgumentParser, word: str) -> Action | None:
    """The option that takes the next word as its value."""
    action = parser._option_string_actions.get(word)
    return action if action is not None and action.nargs is None else None


def _options(parser: ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        for option in action.option_strings:
            if option.startswith("--"):
                yield f"{option}\t{action.help or ''}".rstrip("\t")


def _values(action: Action, paths: Paths) -> Iterator[str]:
    if isinstance(action, _SubParsersAction):
        for choice in action._choices_actions:
            yield f"{choice.dest}\t{choice.help or ''}"
    elif action.choices is not None:
        yield from map(str, action.choices)
    else:
        for known in _KINDS.get(str(action.metavar), ()):
            yield from known(paths)


def _files(paths: Paths) -> list[str]:
    return [FILES]


def _sandboxes(paths: Paths) -> list[str]:
    """Names before ids; nothing if hostd does not answer within two seconds."""
    try:
        items = items_of(ask(paths.hostd_socket, {"op": "ls"}, timeout=_QUICK))
    except Failure:
        return []
    names = [str(item["name"]) for item in items if item.get("name")]
    return [*names, *(str(item.get("sandbox")) for item in items)]


def _policies(paths: Paths) -> list[str]:
    return sorted(path.stem for path in paths.policies.glob("*.toml"))


def _codes(paths: Paths) -> list[str]:
    # attrs alone takes longer to import than anything else that a key has to wait for.
    from gitmoat.codes import CODES

    return [f"{code.id}\t{code.text}" for code in CODES.values()]


_KINDS: dict[str, Sequence[Callable[[Paths], list[str]]]] = {
    "S": (_sandboxes,),
    "S|FILE": (_sandboxes, _policies, _files),
    "A": (_sandboxes, _policies, _files),
    "B": (_sandboxes, _policies, _files),
    "NAME|FILE": (_policies, _files),
    "FILE": (_policies, _files),
    "F": (_files,),
    "DIR": (_files,),
    "DIR[:ro]": (_files,),
    "FROM": (_files,),
    "TO": (_files,),
    "CODE|REQUEST-ID": (_codes,),
}

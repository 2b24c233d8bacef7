"""One page per verb of hostctl, out of the same parsers that read the command line.

`docs/conf.py` writes them at each build, so they cannot be behind. The man pages are the same
pages in another format.
"""

from __future__ import annotations

import re
from argparse import SUPPRESS, Action, ArgumentParser, HelpFormatter, _SubParsersAction
from collections.abc import Iterator
from itertools import groupby
from textwrap import dedent

from hostctl.arguments import VERBS, verb_parser
from hostctl.help.helptext import HELP

# Shown by every parser; written once, on the overview.
_GLOBAL_GROUP = "options of every command"


def pages() -> dict[str, str]:
    """File name without its ending → MyST text."""
    made = {f"hostctl-{verb}": verb_page(verb) for verb in VERBS}
    return {"hostctl": overview_page(), **made}


def summary(name: str) -> str:
    """The one line of `hostctl --help` about a verb."""
    verb = name.removeprefix("hostctl-")
    found = re.search(rf"^  {re.escape(verb)} +(.+)$", HELP, re.MULTILINE)
    return found[1].rstrip("?") if found else "git for sandboxes, and nothing else"


def overview_page() -> str:
    lines = ["# hostctl", "", _fenced(HELP), "", "## Exit codes", ""]
    lines += ["```{include} ../../configuration.md"]
    lines += [":start-after: '## Exit codes of hostctl'", "```", ""]
    return "\n".join(lines)


def verb_page(verb: str) -> str:
    parser = verb_parser(verb)
    lines = [f"# hostctl {verb}", "", *_about(parser), "", *_usage(parser), ""]
    lines += list(_arguments(parser))
    for name, sub in _actions(parser):
        lines += [f"## hostctl {verb} {name}", "", *_about(sub), "", *_usage(sub), ""]
        lines += list(_arguments(sub))
    return "\n".join(lines).rstrip() + "\n"


def _about(parser: ArgumentParser) -> list[str]:
    """Descriptions are plain text: lines that are set in become an example."""
    lines: list[str] = []
    text = (parser.description or "").splitlines()
    for example, run in groupby(text, key=lambda line: line.startswith("  ")):
        shown = "\n".join(run).strip("\n")
        lines += [_fenced(dedent(shown)) if example else _plain(shown), ""]
    return lines[:-1]


def _usage(parser: ArgumentParser) -> list[str]:
    own = [each for each in parser._actions if each not in _shared(parser)]
    # A width of its own: the page must not depend on the terminal of who builds it.
    formatter = HelpFormatter(parser.prog, width=88)
    formatter.add_usage(None, own, parser._mutually_exclusive_groups, prefix="")
    tail = (parser.epilog or "").strip()
    return [_fenced(formatter.format_help()), *(["", _plain(tail)] if tail else [])]


def _shared(parser: ArgumentParser) -> list[Action]:
    """--help, and what every command takes."""
    groups = [each for each in parser._action_groups if each.title == _GLOBAL_GROUP]
    return [
        each
        for each in parser._actions
        if each.dest == "help" or any(each in group._group_actions for group in groups)
    ]


def _arguments(parser: ArgumentParser) -> Iterator[str]:
    for group in parser._action_groups:
        actions = [each for each in group._group_actions if _worth_showing(each)]
        if not actions or group.title == _GLOBAL_GROUP:
            continue
        if group.title not in ("positional arguments", "options"):
            yield from (f"*{_plain(group.title or '')}*", "")
        for action in actions:
            yield from _entry(parser, action)


def _worth_showing(action: Action) -> bool:
    hidden = action.help == SUPPRESS
    return not hidden and action.dest != "help" and not isinstance(action, _SubParsersAction)


def _entry(parser: ArgumentParser, action: Action) -> Iterator[str]:
    """A definition list: the words to type, then what they mean."""
    text = parser._get_formatter()._expand_help(action) if action.help else _evident(action)
    if text:
        yield from (f"`{_words(action)}`", f":   {_plain(text)}", "")


def _evident(action: Action) -> str:
    """What the parser itself knows of an argument that nobody explained."""
    if action.choices:
        default = f"; default {action.default}" if action.default not in (None, SUPPRESS) else ""
        return "one of " + ", ".join(map(str, action.choices)) + default
    return "may be given several times" if isinstance(action.default, list) else ""


def _words(action: Action) -> str:
    value = _value(action)
    if not action.option_strings:
        return value
    return ", ".join(f"{option} {value}".strip() for option in action.option_strings)


def _value(action: Action) -> str:
    if action.nargs == 0:
        return ""
    if action.metavar is not None:
        return action.metavar if isinstance(action.metavar, str) else " ".join(action.metavar)
    if action.choices:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return action.dest.upper()


def _actions(parser: ArgumentParser) -> Iterator[tuple[str, ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            yield from action.choices.items()


def _fenced(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```"


def _plain(text: str) -> str:
    """Text that Markdown shows as it is; what stands in backticks stays code."""
    parts = text.split("`")
    for place in range(0, len(parts), 2):
        for mark in ("\\", "*", "_", "<", "[", "]", "{", "$"):
            parts[place] = parts[place].replace(mark, "\\" + mark)
        parts[place] = parts[place].replace("--", "\\-\\-")
    return "`".join(parts)

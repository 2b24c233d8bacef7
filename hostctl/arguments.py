"""The command line: finds the verb, lets only that verb's module define and read the rest."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib import import_module
from os.path import abspath, exists, isdir
from typing import NoReturn, Protocol

from gitmoat.paths import Paths
from hostctl.failure import usage
from hostctl.help.gone import refuse_gone
from hostctl.help.habits import refuse_habit
from hostctl.output import Output

VERBS = (
    "activity", "attach", "audit", "broker", "completion", "cp", "cred", "demo", "diff", "doctor",
    "down", "exec", "explain", "git", "host", "init", "inspect", "logs", "ls", "policy", "reload",
    "rescue", "restart", "rm", "run", "session", "start", "status", "stop", "up", "upstream",
    "verify",
)  # fmt: skip
_LONGEST_ROOT = 255
_WITH_COMMAND = {
    "run": "[OPTIONS] -- CMD...",
    "exec": "[OPTIONS] S -- CMD...",
    "git": "S -- fetch|push|ls-remote ...",
}


class VerbModule(Protocol):
    """What every verb's module offers."""

    ABOUT: str

    def arguments(self, parser: ArgumentParser) -> None: ...

    def main(self, args: Namespace, paths: Paths, out: Output) -> int: ...


class Parser(ArgumentParser):
    """argparse, with errors of the same form as all others."""

    def error(self, message: str) -> NoReturn:
        verb = self.prog.removeprefix("hostctl").split() or [""]
        tail = _WITH_COMMAND.get(verb[0], "")
        fix = f"{self.prog} --help"
        if tail and message.startswith("unrecognized arguments"):
            fix = f"the command goes after --: {self.prog} {tail}"
        raise usage(message, fix)


def sub_parsers(parser: ArgumentParser) -> Callable[[str, str], ArgumentParser]:
    """Adds sub-commands to a verb; each takes the global options too."""
    group = parser.add_subparsers(
        dest="action", required=True, metavar="ACTION", parser_class=Parser
    )

    def add(name: str, about: str) -> ArgumentParser:
        sub: ArgumentParser = group.add_parser(
            name,
            help=about.partition("\n")[0],
            description=about,
            allow_abbrev=False,
            formatter_class=RawDescriptionHelpFormatter,
        )
        _add_globals(sub)
        sub.set_defaults(prog=sub.prog)
        return sub

    return add


def verb_module(verb: str) -> VerbModule:
    module: VerbModule = import_module(f"hostctl.commands.{verb}")
    return module


def parse(argv: Sequence[str], root: str) -> Namespace:
    """The whole command line as one namespace; raises Failure for every misuse."""
    place = _verb_place(argv)
    args = Namespace(root=root, json=False, quiet=False, verbose=0, no_color=False, command=[])
    _parser("hostctl", "", help_option=False).parse_args(list(argv[:place]), args)
    if place == len(argv):
        raise usage("no command given", "hostctl --help lists the commands")
    args.verb = argv[place]
    rest = list(argv[place + 1 :])
    if args.verb in _WITH_COMMAND and "--" in rest:
        cut = rest.index("--")
        rest, args.command = rest[:cut], rest[cut + 1 :]
    refuse_gone(args.verb, rest)
    refuse_habit(args.verb, rest, VERBS)
    _check_verb(args.verb)
    args.prog = f"hostctl {args.verb}"  # a sub-command puts its own in this place
    _, left = verb_parser(args.verb).parse_known_args(rest, args)
    if left:
        Parser(prog=args.prog).error(f"unrecognized arguments: {' '.join(left)}")
    args.root = abspath(args.root)  # noqa: PTH100 -- symlinks are judged later, not resolved
    _check_root(args.root)
    return args


def _check_root(root: str) -> None:
    fix = "--root, or GITMOAT_ROOT, names a directory"
    if len(root) > _LONGEST_ROOT:
        raise usage(f"the root's path is longer than {_LONGEST_ROOT} characters", fix)
    if exists(root) and not isdir(root):  # noqa: PTH110, PTH112 -- pathlib is slow to import
        raise usage(f"{root} is not a directory", fix)


def verb_parser(verb: str) -> ArgumentParser:
    module = verb_module(verb)
    parser = _parser(f"hostctl {verb}", module.ABOUT, help_option=True)
    if verb in _WITH_COMMAND:
        parser.epilog = f"The command goes last, after --:  hostctl {verb} {_WITH_COMMAND[verb]}"
    module.arguments(parser)
    return parser


def need_command(args: Namespace) -> list[str]:
    command: list[str] = args.command
    if not command:
        tail = _WITH_COMMAND[args.verb]
        raise usage("no command to run was given", f"hostctl {args.verb} {tail}")
    return command


def _parser(prog: str, about: str, help_option: bool) -> ArgumentParser:
    parser = Parser(
        prog=prog,
        description=about,
        add_help=help_option,
        allow_abbrev=False,
        formatter_class=RawDescriptionHelpFormatter,
    )
    _add_globals(parser)
    return parser


def _add_globals(parser: ArgumentParser) -> None:
    # No defaults: an option given before the verb must survive the verb's own parser.
    add = parser.add_argument_group("options of every command").add_argument
    add("--root", metavar="DIR", default=SUPPRESS, help="prefix of every path")
    add("--json", action="store_true", default=SUPPRESS, help="one JSON object on stdout")
    add("-q", "--quiet", action="store_true", default=SUPPRESS, help="print less")
    add("-v", dest="verbose", action="count", default=SUPPRESS, help="print more")
    add("--no-color", action="store_true", default=SUPPRESS, help="no colour")


def _verb_place(argv: Sequence[str]) -> int:
    place = 0
    while place < len(argv) and argv[place].startswith("-"):
        place += 2 if argv[place] == "--root" else 1
    return min(place, len(argv))


def _check_verb(verb: str) -> None:
    if verb in VERBS:
        return
    close = get_close_matches(verb, VERBS, 1)
    fix = f"did you mean `hostctl {close[0]}`?" if close else "hostctl --help lists the commands"
    raise usage(f"there is no command {verb!r}", fix)

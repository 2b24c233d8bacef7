"""The one boundary of hostctl: arguments in, exit code out, never a traceback (`-vv` shows it)."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from gitmoat.paths import Paths
from gitmoat.version import VERSION
from hostctl.arguments import parse, verb_module
from hostctl.failure import INTERRUPTED, READER_LEFT, Failure, Interrupted
from hostctl.help.helptext import HELP
from hostctl.output import Output, wants_colour
from hostctl.terminal.waiting_line import Waiting


def main(argv: Sequence[str] | None = None) -> int:
    arguments = sys.argv[1:] if argv is None else list(argv)
    if arguments in ([], ["-h"], ["--help"], ["help"]):
        return _print_help(bool(arguments))
    if arguments == ["--version"]:
        print(f"gitmoat {VERSION}")
        return 0
    return _guarded(arguments)


def _print_help(asked: bool) -> int:
    print(HELP, end="", file=sys.stdout if asked else sys.stderr)
    return 0 if asked else 2


def _guarded(arguments: list[str]) -> int:
    out = Output(json="--json" in arguments[: _before_command(arguments)])
    verbose = 0
    try:
        args = parse(arguments, os.environ.get("GITMOAT_ROOT") or "/")
        verbose = args.verbose
        colour = wants_colour(os.environ, args.no_color, sys.stdout)
        out = Output(args.json, args.quiet, colour)
        Waiting.quiet = args.quiet
        return verb_module(args.verb).main(args, Paths(args.root), out)
    except Failure as failure:
        out.failure(failure)
        _trace(verbose)
        return failure.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except Interrupted as interrupted:
        return interrupted.exit_code
    except BrokenPipeError:
        return _reader_left()
    except Exception as error:  # noqa: BLE001 -- the boundary: users get a sentence, not a stack
        out.failure(_unexpected(error))
        _trace(verbose)
        return 1


def _before_command(arguments: list[str]) -> int:
    return arguments.index("--") if "--" in arguments else len(arguments)


def _unexpected(error: Exception) -> Failure:
    # Only an OSError's text is known to hold nothing of what was being handled.
    why = f"{type(error).__name__}: {error}" if isinstance(error, OSError) else type(error).__name__
    return Failure("C107", "hostctl failed unexpectedly", why, "-vv shows where; please report it")


def _trace(verbose: int) -> None:
    if verbose > 1:
        sys.__excepthook__(*sys.exc_info())


def _reader_left() -> int:
    # Python would complain once more when it flushes stdout at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return READER_LEFT


if __name__ == "__main__":
    sys.exit(main())

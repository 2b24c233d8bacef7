"""Questions to the person at the terminal; never asked where there is none."""

from __future__ import annotations

import os
import sys
import termios
from collections.abc import Callable

from hostctl.failure import Failure, Interrupted, usage
from hostctl.terminal.interrupts import raise_on_signals

_LONGEST_LINE = 4094  # the kernel drops, without a word, what is typed behind it (termios(3))
_YES = {"y": True, "yes": True, "n": False, "no": False}
Check = Callable[[str], object]


def is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask(question: str, default: str = "", check: Check = str) -> str:
    """Asks on stderr: stdout is for results. Asks again, with the reason, while `check` fails."""
    shown = f"{question} [{default}]: " if default else f"{question}: "
    while True:
        answer = _line(shown) or default
        try:
            if not answer:
                raise usage("an answer is needed", "Ctrl-C ends this")
            check(answer)
        except Failure as failure:
            _say(f"  {failure.what}; {failure.fix}")
        else:
            return answer


def _line(shown: str) -> str:
    try:
        print(shown, end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
    except UnicodeDecodeError:
        return ""
    except KeyboardInterrupt:
        _say("\nended; nothing was written")
        raise
    if not line:
        _say("\nended; nothing was written")
        raise Interrupted(2)
    return line.strip()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def ask_secret(question: str, terminal: int) -> bytes:
    """One line of the terminal, which does not show it; a signal restores the echo too."""
    raise_on_signals()
    before = termios.tcgetattr(terminal)
    hidden = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
    try:
        # TCSAFLUSH: what was typed before the question is no answer to it.
        termios.tcsetattr(terminal, termios.TCSAFLUSH, hidden)
        print(f"{question}: ", end="", file=sys.stderr, flush=True)
        line = os.read(terminal, _LONGEST_LINE + 2)
    finally:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, before)
        _say("")
    if len(line) > _LONGEST_LINE:
        fix = "put it into a file: --stdin < FILE"
        raise usage("the secret is longer than a line of a terminal can be", fix)
    secret = line.rstrip(b"\r\n")
    if not secret:
        raise usage("no secret was entered", "type or paste it, then press Enter")
    return secret


def ask_list(question: str, default: str = "", check: Check = str) -> list[str]:
    def check_each(answer: str) -> None:
        for word in answer.split():
            check(word)

    return ask(f"{question}, with spaces between", default, check_each).split()


def ask_yes(question: str, default: bool) -> bool:
    def check(answer: str) -> None:
        if answer.lower() not in _YES:
            raise usage(f"{answer!r} is neither yes nor no", "write y or n")

    return _YES[ask(question, "yes" if default else "no", check).lower()]

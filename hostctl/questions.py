"""Questions to the person at the terminal; never asked where there is none."""

from __future__ import annotations

import sys

from hostctl.failure import Interrupted

_YES = {"y": True, "yes": True, "n": False, "no": False}


def is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask(question: str, default: str = "") -> str:
    """Asked on stderr: stdout is for results."""
    shown = f"{question} [{default}]: " if default else f"{question}: "
    while True:
        print(shown, end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            raise Interrupted(2)
        answer = line.strip() or default
        if answer:
            return answer


def ask_list(question: str, default: str = "") -> list[str]:
    return ask(f"{question}, with spaces between", default).split()


def ask_yes(question: str, default: bool) -> bool:
    while True:
        answer = ask(question, "yes" if default else "no").lower()
        if answer in _YES:
            return _YES[answer]

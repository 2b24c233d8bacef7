"""A git credential helper of the host's owner: which command, run as whom.

It stands in the broker's configuration. The broker learns that there is one; hostd, which runs it,
reads the same table by itself.
"""

import re
from collections.abc import Callable
from typing import TypeVar

from attrs import frozen

from netpolicy.format.reading import PolicyError, Table

T = TypeVar("T")

_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_WORD = re.compile(r"[ -~]{1,1024}")
_WORDS = 32


@frozen
class OwnerHelper:
    user: str
    command: tuple[str, ...]


def owner_helper(table: Table) -> OwnerHelper:
    """Reads `user` and `command`; PolicyError for anything that hostd would not run."""
    return OwnerHelper(_read(table, "user", helper_user), _read(table, "command", helper_command))


def _read(table: Table, key: str, read: Callable[[object], T]) -> T:
    if not table.has(key):
        raise PolicyError(table.at(key), "is missing")
    try:
        return read(table.take(key))
    except PolicyError as error:
        raise PolicyError(table.at(key), error.what, error.hint) from None


# Of one value; PolicyError without a path


def helper_user(user: object) -> str:
    if not isinstance(user, str) or _USER.fullmatch(user) is None:
        raise PolicyError("", "is not a user's name")
    if user == "root":
        raise PolicyError("", "must not be root", "name the account whose login the helper uses")
    return user


def helper_command(words: object) -> tuple[str, ...]:
    hint = 'write a list of words: command = ["gh", "auth", "git-credential"]'
    if not isinstance(words, list) or not 0 < len(words) <= _WORDS:
        raise PolicyError("", "is not a list of words", hint)
    if not all(isinstance(word, str) and _WORD.fullmatch(word) for word in words):
        raise PolicyError("", "has a word that is not printable ASCII", hint)
    if "/" in words[0] and not words[0].startswith("/"):
        hint = "a name in the system's PATH, or a path from /"
        raise PolicyError("", "begins with a relative path", hint)
    return tuple(words)

"""A git credential helper of the host's owner: which command, run as whom.

It stands in the broker's configuration. The broker learns that there is one; hostd, which runs it,
reads the same table by itself.
"""

import re

from attrs import frozen

from netpolicy.reading import PolicyError, Table

_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_WORD = re.compile(r"[ -~]{1,1024}")
_WORDS = 32


@frozen
class OwnerHelper:
    user: str
    command: tuple[str, ...]


def owner_helper(table: Table) -> OwnerHelper:
    """Reads `user` and `command`; PolicyError for anything that hostd would not run."""
    return OwnerHelper(_user(table), _command(table))


def _user(table: Table) -> str:
    user = table.text("user")
    if _USER.fullmatch(user) is None:
        raise PolicyError(table.at("user"), "is not a user's name")
    if user == "root":
        hint = "name the account whose login the helper uses"
        raise PolicyError(table.at("user"), "must not be root", hint)
    return user


def _command(table: Table) -> tuple[str, ...]:
    given = table.take("command")
    hint = 'write a list of words: command = ["gh", "auth", "git-credential"]'
    if not isinstance(given, list) or not 0 < len(given) <= _WORDS:
        raise PolicyError(table.at("command"), "is not a list of words", hint)
    if not all(isinstance(word, str) and _WORD.fullmatch(word) for word in given):
        raise PolicyError(table.at("command"), "has a word that is not printable ASCII", hint)
    if "/" in given[0] and not given[0].startswith("/"):
        why = "begins with a relative path"
        raise PolicyError(table.at("command"), why, "a name in the system's PATH, or a path from /")
    return tuple(given)

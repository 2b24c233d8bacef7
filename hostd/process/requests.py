"""Requests of hostd to the processes that fork for it, and their answers.

Each message is one JSON object on a seqpacket socket, and descriptors come beside it; a request
says which in its own docstring. Both ends are of one version, because hostd starts the other one;
but after an upgrade it may start a newer one, which refuses what it does not understand. The half
that hostd speaks is `ask_listen` and so on, and the half that answers is `answer_listen`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import asdict, field, frozen

from gitmoat.confine.confining import Limits
from gitmoat.shape import (
    Misshapen,
    Shape,
    by_name,
    choice,
    flag,
    in_order,
    key,
    number,
    optional,
    read,
    read_json,
    table,
    tagged,
    text,
    write,
)

LONGEST_REQUEST: Final = 160 * 1024  # what one message of a socket's usual buffer holds
LONGEST_MESSAGE: Final = 256 * 1024
MOST_DESCRIPTORS: Final = 16

_ID = number(0, 2**32 - 2)
_PID = number(1, 2**31 - 1)
_NUMBER = number(0, 2**63 - 1)
_WORD = text(LONGEST_MESSAGE, least=0, printable=False)
_WORDS = in_order(_WORD, most=LONGEST_MESSAGE)


def _read_limits(value: object, path: str) -> Limits:
    try:
        return Limits(**by_name(optional(_NUMBER)).read(value, path))  # type: ignore[arg-type]
    except TypeError:
        raise Misshapen(path, "are not limits of a process") from None


def _read_attempt(value: object, path: str) -> Sequence[Any]:
    """A name of `hostd.verify.attempts.reporting`, and what that one takes."""
    if not isinstance(value, list) or not value or not isinstance(value[0], str):
        raise Misshapen(path, "is not an attempt")
    return value


# Requests


@frozen
class Ping:
    """Asks whether it still takes requests."""


@frozen
class Join:
    """Whose namespaces a child joins: the pidfd of the first process there (setns(2))."""

    namespaces: tuple[str, ...] = key(in_order(choice("pid", "mount", "net")))
    pidfd: int = field(default=-1, kw_only=True)


@frozen
class HostUser:
    """An account of this host. Only a program of its own is run with its groups."""

    gid: int = key(_ID)
    groups: tuple[int, ...] = key(in_order(_ID, most=2**16))


@frozen
class _Child:
    """What is said of every child that lasts until its own end.

    uid 0 is only for hostd's own tools (bwrap, nft, rm); every other child is confined.
    `room`: the sandbox, or the git gate of one, that the child joins, if any.
    `cause`: the sandbox whose code may hold the child up, if any.
    Descriptors: those that become its 0, 1, 2, …; then, where it joins, the pidfd for that.
    """

    uid: int = key(_ID, 0)
    cgroups: tuple[str, ...] = key(_WORDS, ())
    room: Join | None = key(optional(table(Join)), None)
    limits: Limits = key(Shape(_read_limits, asdict), Limits(open_files=1024))
    cause: str = key(_WORD, "")


@frozen
class Command(_Child):
    """A program."""

    argv: tuple[str, ...] = key(in_order(_WORD, least=1, most=LONGEST_MESSAGE))
    environment: Mapping[str, str] = key(by_name(_WORD))
    cwd: str = key(_WORD, "/")
    tty: bool = key(flag(), False)
    person: HostUser | None = key(optional(table(HostUser)), None)


@frozen
class Probe(_Child):
    """Attempts of `hostd.verify.attempts.reporting`, in the place of a program."""

    attempts: tuple[Sequence[Any], ...] = key(in_order(Shape(_read_attempt), most=LONGEST_MESSAGE))


@frozen
class Listen:
    """Sets sysctls and makes listeners. Descriptors: the network namespace.

    The answer comes with the descriptors of all rows of `gitmoat/listeners.py`, in their order.
    """

    uid: int = key(_ID)
    credential: str = key(_WORD)
    control: str = key(_WORD)


@frozen
class Survey:
    """Asks what is in a network namespace, and for its settings. Descriptors: that namespace."""


@frozen
class Ids:
    on_disk: int = key(_ID)
    shown: int = key(_ID)


@frozen
class MapIds:
    """The answer comes with a user namespace, for an idmapped mount."""

    uids: Ids = key(table(Ids))
    gids: Ids = key(table(Ids))


@frozen
class Sidecar:
    """A sidecar. Descriptors: network namespace, configuration, log, and then the listeners."""

    uid: int = key(_ID)
    empty_root: str = key(_WORD)
    cgroups: tuple[str, ...] = key(_WORDS)


Request = Ping | Command | Probe | Listen | Survey | MapIds | Sidecar


# Answers


@frozen
class Alive:
    """Requests are taken in their order: everything sent before this ping has been read."""


@frozen
class Done:
    """What was asked for came with this message."""


@frozen
class Started:
    """The child has begun; its pidfd came with this message."""

    pid: int = key(_PID)


@frozen
class Surveyed:
    """Interfaces besides lo, settings that are wrong, and how often the rules of the namespace
    were changed."""

    interfaces: tuple[str, ...] = key(_WORDS, ())
    sysctls: tuple[str, ...] = key(_WORDS, ())
    generation: int = key(_NUMBER)


@frozen
class Refused:
    """No child has begun. `errno` is 0 where no system call failed.

    `code` is set where hostd tells its admin this text and no more.
    """

    why: str = key(_WORD)
    errno: int = key(_NUMBER, 0)
    code: str = key(_WORD, "")


@frozen
class Ended:
    """A child that had begun has ended; the status is that of `os.waitstatus_to_exitcode`."""

    pid: int = key(_PID)
    status: int = key(number(-255, 255))


Answer = Alive | Done | Started | Surveyed | Refused | Ended


# The one form of both


REQUESTS: dict[str, type[Any]] = {
    "ping": Ping,
    "command": Command,
    "probe": Probe,
    "listen": Listen,
    "survey": Survey,
    "map-ids": MapIds,
    "sidecar": Sidecar,
}
ANSWERS: dict[str, type[Any]] = {
    "alive": Alive,
    "done": Done,
    "started": Started,
    "surveyed": Surveyed,
    "refused": Refused,
    "ended": Ended,
}


@frozen
class Asked:
    number: int = key(_NUMBER)
    request: Request = key(tagged("op", REQUESTS))


@frozen
class Answered:
    """`number` is the request's; 0 where there was no request."""

    number: int = key(_NUMBER)
    answer: Answer = key(tagged("op", ANSWERS))


def packed(message: Asked | Answered) -> bytes:
    return json.dumps(write(message), separators=(",", ":")).encode("ascii")


def number_of(data: bytes) -> int:
    """The number of a request of which nothing else may be understood, so that its refusal reaches
    the asker; 0 where there is none."""
    try:
        message = read_json(data, LONGEST_MESSAGE)
        return _NUMBER.read(message.get("number") if isinstance(message, dict) else None, "number")
    except Misshapen:
        return 0


def unpack_asked(data: bytes) -> Asked:
    return read(Asked, read_json(data, LONGEST_MESSAGE))


def unpack_answered(data: bytes) -> Answered:
    return read(Answered, read_json(data, LONGEST_MESSAGE))

"""git-credential-gitmoat: git's standard input to the sidecar, the answer to standard output."""

import posix  # `os` alone would make every git operation wait a quarter longer for us
import sys

from credential_helper.gitcredential import (
    ACTIONS,
    QUIT,
    REQUEST_LIMIT,
    CredentialMalformed,
    Request,
    format_answer,
    format_request,
    parse_answer,
    parse_request,
)
from credential_helper.rendezvous import SOCKET, NoAnswer, ask

USAGE = "usage: git-credential-gitmoat [--server-uid UID] [--socket PATH] get|store|erase"


class Usage(Exception):
    """The command line is not ours."""


class Options:
    """The parsed command line."""

    __slots__ = ("action", "server_uid", "socket")

    def __init__(self, arguments: list[str]) -> None:
        self.socket = SOCKET
        self.server_uid: int | None = None
        *options, self.action = arguments or [""]
        if len(options) % 2 or not self.action:
            raise Usage
        for name, value in zip(options[::2], options[1::2], strict=True):
            self._take(name, value)

    def _take(self, name: str, value: str) -> None:
        if name == "--server-uid" and value.isascii() and value.isdigit():
            self.server_uid = int(value)
        elif name == "--socket" and value:
            self.socket = value
        else:
            raise Usage


def main(arguments: list[str] | None = None) -> int:
    """Run once; a refusal is one line for people and `quit=1` for git."""
    try:
        options = Options(sys.argv[1:] if arguments is None else arguments)
    except Usage:
        _say(2, USAGE + "\n")
        return 2
    if options.action != ACTIONS[0]:
        return 0  # there is nothing to store or erase; git asks helpers to ignore the unknown
    try:
        _write(1, _credential(options))
    except (CredentialMalformed, NoAnswer, Refused) as problem:
        _say(2, f"gitmoat: {problem}\n")
        _write(1, QUIT)
        return 1
    return 0


class Refused(Exception):
    """The sidecar said no."""


def _credential(options: Options) -> bytes:
    request = parse_request(b"action=get\n" + _read_all(0))
    answer = parse_answer(ask(format_request(request), options.socket, options.server_uid))
    if answer is None:
        raise Refused(_refusal(request))
    return format_answer(*answer)


def _refusal(request: Request) -> str:
    return (
        f"no credential for {request.path}: this sandbox may not use that repository, "
        "or its session has ended; the policy in force is in /run/gitmoat/policy.json"
    )


def _read_all(fd: int) -> bytes:
    held = b""
    while len(held) <= REQUEST_LIMIT and (piece := posix.read(fd, REQUEST_LIMIT)):
        held += piece
    return held


def _say(fd: int, text: str) -> None:
    _write(fd, text.encode("ascii", "backslashreplace"))


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[posix.write(fd, data) :]

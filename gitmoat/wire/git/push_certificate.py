"""A signed push's certificate (gitprotocol-pack): read for its commands, so as to name them.

It signs the nonce of the upstream and the URL that the client sees, neither of which we can
change; so a signed push is never sent on, only refused ref by ref.
"""

import re
from enum import Enum, auto

from gitmoat.wire.malformed import Malformed

# queue_commands_from_cert() of git's receive-pack.c reads commands between the empty line and the
# signature.
_VERSION = b"certificate version 0.1"
_HEADER = re.compile(rb"(?:pusher|pushee|nonce|push-option) [^\0\n]+")
_SIGNATURE = b"-----BEGIN "
_END = b"push-cert-end"


class _Part(Enum):
    VERSION = auto()
    HEADERS = auto()
    COMMANDS = auto()
    SIGNATURE = auto()
    ENDED = auto()


class PushCertificate:
    """Takes the lines behind `push-cert`, without their line ends."""

    def __init__(self) -> None:
        self._part = _Part.VERSION

    @property
    def ended(self) -> bool:
        return self._part is _Part.ENDED

    def feed(self, line: bytes) -> bytes | None:
        """The line again if it is a command; None for every other line of a certificate."""
        match self._part:
            case _Part.VERSION if line == _VERSION:
                self._part = _Part.HEADERS
            case _Part.HEADERS if not line:
                self._part = _Part.COMMANDS
            case _Part.HEADERS if _HEADER.fullmatch(line):
                pass
            case _Part.COMMANDS if line.startswith(_SIGNATURE):
                self._part = _Part.SIGNATURE
            case _Part.COMMANDS:
                return line
            case _Part.SIGNATURE:
                self._part = _Part.ENDED if line == _END else _Part.SIGNATURE
            case _:
                raise Malformed("not a push certificate")
        return None

"""How the end of an HTTP/1.1 body is found (RFC 9112, section 6)."""

import re
from typing import Final, assert_never

from attrs import field, frozen

from gitmoat.wire.malformed import Malformed

MAX_BODY: Final = 2**48

Headers = tuple[tuple[bytes, bytes], ...]

# One spelling for each number: no sign, leading zero or underscore, which int() takes. RFC 9110,
# 8.6 lets a recipient accept a list of equal numbers; a hop that does not would see another body.
_DECIMAL = re.compile(rb"0|[1-9][0-9]{0,14}")


@frozen
class NoBody:
    """The message ends with its head."""


@frozen
class Length:
    octets: int = field()

    @octets.validator
    def _check(self, _attribute: object, octets: int) -> None:
        if not isinstance(octets, int) or not 0 <= octets <= MAX_BODY:
            raise ValueError("a body has no such number of octets")


@frozen
class Chunked:
    """Chunks (RFC 9112, 7.1) without extensions or trailers."""


@frozen
class UntilClose:
    """Responses only: the body ends when the connection does."""


Framing = NoBody | Length | Chunked | UntilClose


def parse_length(value: bytes) -> Length:
    if _DECIMAL.fullmatch(value) is None or (octets := int(value)) > MAX_BODY:
        raise Malformed("Content-Length is not one plain number")
    return Length(octets)


def framing_headers(framing: Framing) -> Headers:
    """The header lines that announce `framing`; the only place they are written."""
    match framing:
        case NoBody() | UntilClose():
            return ()
        case Length(octets):
            return ((b"Content-Length", b"%d" % octets),)
        case Chunked():
            return ((b"Transfer-Encoding", b"chunked"),)
        case _:
            assert_never(framing)

"""DNS messages (RFC 1035), as far as a resolver that knows a few names needs them.

One question, spelt plainly; answers are an address, nothing, or an error. Everything else a message
can hold is refused, and nothing of it is ever passed on.
"""

from typing import Final

from attrs import frozen

from gitmoat.wire.malformed import Malformed

MAX_QUERY: Final = 512  # RFC 1035, 4.2.1; no question of ours needs what EDNS adds

A: Final = 1
AAAA: Final = 28
_INTERNET: Final = 1
_OPT: Final = 41
_HEAD: Final = 12
_MAX_LABEL: Final = 63
_MAX_NAME: Final = 255
_QUERY_FLAGS: Final = 0x0100 | 0x0030  # recursion desired, AD and CD; all others mean no query
_ANSWER_FLAGS: Final = 0x8580  # an answer, authoritative, recursion available
_RECURSION: Final = 0x0100

# RFC 1035, 4.1.1, RCODE
NOERROR: Final = 0
FORMERR: Final = 1
NXDOMAIN: Final = 3


@frozen
class Question:
    """`name` without its final dot; b"" is the root. `octets` are the question as it came."""

    id: int
    name: bytes
    type: int
    octets: bytes
    recursion: bool

    @property
    def end(self) -> int:
        return _HEAD + len(self.octets)


def parse_query(data: bytes) -> Question:
    """Malformed for all but one plain question of class IN, with or without EDNS."""
    if len(data) < _HEAD:
        raise Malformed("DNS message is cut short")
    flags, counts = int.from_bytes(data[2:4]), data[4:12]
    if flags & ~_QUERY_FLAGS:
        raise Malformed("not a DNS query")
    if counts not in (b"\0\1\0\0\0\0\0\0", b"\0\1\0\0\0\0\0\1"):
        raise Malformed("not one DNS question")
    labels, at = _labels(data)
    if len(data) < at + 4 or int.from_bytes(data[at + 2 : at + 4]) != _INTERNET:
        raise Malformed("not a DNS question of class IN")
    _check_rest(data[at + 4 :], with_options=counts[-1] == 1)
    return Question(
        id=int.from_bytes(data[:2]),
        name=b".".join(labels),
        type=int.from_bytes(data[at : at + 2]),
        octets=data[_HEAD : at + 4],
        recursion=bool(flags & _RECURSION),
    )


def _labels(data: bytes) -> tuple[list[bytes], int]:
    labels, at = [], _HEAD
    while (size := _octet(data, at)) != 0:
        # RFC 1035, 2.3.4: 63 octets a label, 255 a name. 4.1.4: what is longer is a pointer,
        # which in the only question could point to the header or to itself.
        if size > _MAX_LABEL or at + size > _HEAD + _MAX_NAME - 2:
            raise Malformed("DNS name is not plain")
        label = data[at + 1 : at + 1 + size]
        if len(label) < size or b"." in label:
            raise Malformed("DNS name is not plain")
        labels.append(label)
        at += 1 + size
    return labels, at + 1


def _octet(data: bytes, at: int) -> int:
    if at >= len(data):
        raise Malformed("DNS message is cut short")
    return data[at]


def _check_rest(rest: bytes, with_options: bool) -> None:
    if not with_options:
        if rest:
            raise Malformed("something follows the DNS question")
        return
    # RFC 6891, 6.1.2: the root's name, OPT, two octets of size, four of flags, and a length.
    if len(rest) < 11 or rest[0] != 0 or int.from_bytes(rest[1:3]) != _OPT:
        raise Malformed("something but EDNS follows the DNS question")
    if len(rest) != 11 + int.from_bytes(rest[9:11]):
        raise Malformed("EDNS is cut short")


def answer(question: Question, code: int, address: bytes | None = None, ttl: int = 0) -> bytes:
    """Our own spelling of the question, and at most one address: four octets."""
    flags = _ANSWER_FLAGS & ~_RECURSION | (_RECURSION if question.recursion else 0) | code
    counts = b"\0\1\0\1\0\0\0\0" if address is not None else b"\0\1\0\0\0\0\0\0"
    head = question.id.to_bytes(2) + flags.to_bytes(2) + counts + question.octets
    if address is None:
        return head
    # 0xC00C points to the question's name.
    return head + b"\xc0\x0c\0\1\0\1" + ttl.to_bytes(4) + len(address).to_bytes(2) + address


def refusal(data: bytes, code: int) -> bytes | None:
    """The answer to what is no question of ours; None for what must not be answered at all."""
    # RFC 1035, 4.1.1, QR: a response. Two servers that answer responses answer each other for ever.
    if len(data) < _HEAD or data[2] & 0x80:
        return None
    return data[:2] + (0x8000 | code).to_bytes(2) + bytes(8)

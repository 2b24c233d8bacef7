"""The first message of a TLS connection (RFC 8446, 4.1.2), read for the one name it asks for.

Only what says its destination openly and once is a ClientHello here: no SNI, two of them, an
address for a name, or Encrypted ClientHello (whose outer name means nothing) are refused.
"""

from collections.abc import Callable
from typing import Final

from attrs import frozen

from gitmoat.wire.hostname import HostName, parse_host
from gitmoat.wire.malformed import Malformed

HELLO_LIMIT: Final = 32 * 1024

_HANDSHAKE: Final = 22
_CLIENT_HELLO: Final = 1
_RECORD_HEAD: Final = 5
_LARGEST_RECORD: Final = 16384  # RFC 8446, 5.1
_MOST_RECORDS: Final = 1024  # one is usual; a few where somebody cuts it up on purpose
_SERVER_NAME: Final = 0
_HOST_NAME: Final = 0
# Encrypted ClientHello, its predecessor ESNI, and the list that only an inner hello carries.
_ENCRYPTED: Final = frozenset({0xFE0D, 0xFFCE, 0xFD00})


@frozen
class ClientHello:
    name: HostName


class HelloReader:
    """Takes octets until the ClientHello is whole; keeps them in `octets`. Single use.

    What comes behind it (early data) is in `octets` too, unread.
    """

    def __init__(self) -> None:
        self.octets = bytearray()
        self._message = bytearray()
        self._record_at = self._records = 0
        self._failure: Malformed | None = None
        self._done = False

    def feed(self, data: bytes) -> ClientHello | None:
        """The hello once it is whole; after an error every call raises it again."""
        if self._failure is not None:
            raise self._failure
        if self._done:
            raise RuntimeError("the hello was read already")
        self.octets += data
        try:
            hello = self._take()
        except Malformed as failure:
            self._failure = failure.alone()
            raise
        self._done = hello is not None
        return hello

    def _take(self) -> ClientHello | None:
        while (record := self._next_record()) is not None:
            self._records += 1
            self._message += record
            if len(self._message) > HELLO_LIMIT or self._records > _MOST_RECORDS:
                raise Malformed("ClientHello is too large")
            hello = _whole(self._message)
            if hello is not None:
                return hello
        return None

    def _next_record(self) -> bytes | None:
        head = self.octets[self._record_at : self._record_at + _RECORD_HEAD]
        _check_record(head)
        if len(head) < _RECORD_HEAD:
            return None
        size = int.from_bytes(head[3:5])
        start = self._record_at + _RECORD_HEAD
        if len(self.octets) < start + size:
            return None
        self._record_at = start + size
        return bytes(self.octets[start : start + size])


def hello_for(name: HostName) -> Callable[[bytes], bytes | None]:
    """Takes a connection's first octets; returns them all once they are a ClientHello for `name`.

    None: more is needed. Malformed: nothing of it may go on.
    """
    reader = HelloReader()

    def opening(octets: bytes) -> bytes | None:
        hello = reader.feed(octets)
        if hello is None:
            return None
        if hello.name != name:
            raise Malformed("ClientHello asks for another name")
        return bytes(reader.octets)

    return opening


def _check_record(head: bytes | bytearray) -> None:
    """As early as its octets are there: who speaks another protocol is not waited for."""
    if head[:1] and head[0] != _HANDSHAKE:
        raise Malformed("not a TLS handshake")
    # RFC 8446, 5.1: 0x0301 or 0x0303, which a receiver ignores. What is neither TLS 1.0 nor newer
    # may have another form.
    if (head[1:2] and head[1] != 3) or (head[2:3] and head[2] not in (1, 2, 3)):
        raise Malformed("not a TLS version")
    # RFC 8446, 5.1: no fragment of a handshake message is empty.
    if len(head) == _RECORD_HEAD and not 1 <= int.from_bytes(head[3:5]) <= _LARGEST_RECORD:
        raise Malformed("TLS record is empty or too large")


def _whole(message: bytearray) -> ClientHello | None:
    if message[0] != _CLIENT_HELLO:
        raise Malformed("not a ClientHello")
    if len(message) < 4:
        return None
    size = int.from_bytes(message[1:4])
    if size > HELLO_LIMIT:
        raise Malformed("ClientHello is too large")
    if len(message) < 4 + size:
        return None
    if len(message) > 4 + size:
        raise Malformed("something follows the ClientHello in its record")
    return ClientHello(_name(_Octets(bytes(message[4:]))))


class _Octets:
    """Takes vectors from the front; Malformed when one is longer than what is left."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise Malformed("ClientHello is cut short")
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size))

    def vector(self, size: int, least: int, most: int) -> bytes:
        """A vector behind its length, which takes `size` octets."""
        length = self.number(size)
        if not least <= length <= most:
            raise Malformed("a length in the ClientHello is out of range")
        return self.take(length)

    def end(self) -> None:
        if self.left:
            raise Malformed("ClientHello has octets that mean nothing")


def _name(body: _Octets) -> HostName:
    body.take(2 + 32)  # version and random
    body.vector(1, 0, 32)  # session id
    if len(body.vector(2, 2, 65534)) % 2:
        raise Malformed("cipher suites are cut short")
    body.vector(1, 1, 255)  # compression methods
    extensions = _extensions(_Octets(body.vector(2, 0, 65535)))
    body.end()
    if _ENCRYPTED & extensions.keys():
        raise Malformed("ClientHello is encrypted")
    if _SERVER_NAME not in extensions:
        raise Malformed("ClientHello names no server")
    return _server_name(_Octets(extensions[_SERVER_NAME]))


def _extensions(octets: _Octets) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    while octets.left:
        kind = octets.number(2)
        # RFC 8446, 4.2 forbids it; servers differ in which of two server names they believe.
        if kind in found:
            raise Malformed("ClientHello has an extension twice")
        found[kind] = octets.vector(2, 0, 65535)
    return found


def _server_name(extension: _Octets) -> HostName:
    names = _Octets(extension.vector(2, 1, 65535))
    extension.end()
    if names.number(1) != _HOST_NAME:
        raise Malformed("server name is of an unknown kind")
    name = names.vector(2, 1, 65535)
    # RFC 6066, 3: one name of a type, no address, no final dot. A second one might be the one that
    # the server reads.
    names.end()
    return parse_host(name)

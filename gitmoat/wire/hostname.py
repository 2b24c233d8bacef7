"""The one canonical spelling of a host on the other side: a name, never an address."""

import re

from attrs import field, frozen
from attrs.validators import instance_of

from gitmoat.wire.git.repository_name import MAX_NAME
from gitmoat.wire.malformed import Malformed

# RFC 1123, 2.1, and `_`, which names of services and of cloud hosts have.
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
# What inet_aton(3) takes for a part of an address: 127.1, 0x7f.1, 017700000001. A name whose last
# label is one is an IPv4 address to some resolvers and browsers (WHATWG URL, "ends in a number").
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT = re.compile(rb"[1-9][0-9]{0,4}")
_LARGEST_PORT = 65535


@frozen(order=True)
class HostName:
    """Lower-case ASCII labels without a final dot; no spelling of an IP address is one."""

    text: str = field(validator=instance_of(str))

    @text.validator
    def _check(self, _attribute: object, text: str) -> None:
        labels = text.split(".")
        if len(text) > MAX_NAME or not all(map(_LABEL.fullmatch, labels)):
            raise Malformed("not a host name", 403)
        if _NUMBER.fullmatch(labels[-1]):
            raise Malformed("an address is not a host name", 403)


@frozen(order=True)
class Destination:
    host: HostName
    port: int = field()

    @port.validator
    def _check_port(self, _attribute: object, port: int) -> None:
        if not 1 <= port <= _LARGEST_PORT:
            raise Malformed("not a port", 403)

    @property
    def text(self) -> str:
        return f"{self.host.text}:{self.port}"


def parse_host(raw: bytes) -> HostName:
    """Fold ASCII case, as every resolver does; refuse everything else that is not canonical."""
    if not raw.isascii():
        raise Malformed("not a host name", 403)
    return HostName(raw.decode("ascii").lower())


def parse_destination(raw: bytes) -> Destination:
    """`host:port`, both written out: the target of a CONNECT."""
    host, colon, port = raw.rpartition(b":")
    if not colon or _PORT.fullmatch(port) is None:
        raise Malformed("not a host and a port", 403)
    return Destination(parse_host(host), int(port))

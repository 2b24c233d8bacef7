"""Attempts to leave the network, to take a port, to open other sockets, to change the network."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Mapping

from hostd.network import netlink
from hostd.verify.attempts.refused import Refused

_AT_ONCE = 1.0
_TIMEOUT = 5.0
_ANSWER = 4096
_UDP_LITE = 136
_RTM_NEWLINK = 16
_IFLA_IFNAME, _IFLA_LINKINFO, _IFLA_INFO_KIND = 3, 18, 1
_NFNL_BEGIN, _NFNL_END = 16, 17
_NFT_NEWTABLE = 10 << 8
_NFT_SUBSYSTEM = 10
_NFPROTO_INET = 1
_TABLE_NAME = 1


def _connect(family: int, kind: int, address: str, port: int) -> str:
    with socket.socket(family, kind) as client:
        client.settimeout(_AT_ONCE)
        client.connect((address, port))
        if kind == socket.SOCK_DGRAM:
            client.send(b"probe")
            return "sent"
    return "connected"


def _udp_lite(address: str, port: int) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, _UDP_LITE) as client:
        client.sendto(b"probe", (address, port))
    return "sent"


def _bind(family: int, kind: int, address: str, port: int) -> str:
    with socket.socket(family, kind) as listener:
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            listener.setsockopt(socket.SOL_SOCKET, option, 1)
        listener.bind((address, port))
    return "bound"


def _socket(family: int, kind: int, protocol: int) -> str:
    socket.socket(family, kind, protocol).close()
    return "opened"


def _resolve(name: str) -> str:
    """Asks the sandbox's own resolver for an address (RFC 1035, 4.1)."""
    question = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    query = struct.pack("!6H", 0x6D67, 0x0100, 1, 0, 0, 0) + question + b"\0\0\1\0\1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(_TIMEOUT)
        client.connect(("127.0.0.1", 53))
        client.send(query)
        answer = client.recv(_ANSWER)
    code, answers = answer[3] & 0xF, struct.unpack_from("!H", answer, 6)[0]
    if code or not answers:
        raise Refused({0: "no address", 3: "NXDOMAIN", 5: "REFUSED"}.get(code, f"code {code}"))
    return "an address"


def _proxy(target: str) -> str:
    """CONNECT at the sandbox's own proxy."""
    with socket.socket() as client:
        client.settimeout(_TIMEOUT)
        client.connect(("127.0.0.1", 480))
        client.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        answer = client.recv(_ANSWER)
    words = answer.split(b" ", 2)
    if words[0] != b"HTTP/1.1" or words[1:2] != [b"200"]:
        raise Refused(f"HTTP {words[1].decode()}" if len(words) > 1 else "closed")
    return "HTTP 200"


def _extension(kind: int, body: bytes) -> bytes:
    return struct.pack("!HH", kind, len(body)) + body


def client_hello(name: str) -> bytes:
    """The smallest ClientHello that a TLS 1.3 server answers (RFC 8446, 4.1.2 and 9.2)."""
    entry = b"\0" + struct.pack("!H", len(name)) + name.encode()
    extensions = _extension(0, struct.pack("!H", len(entry)) + entry)
    extensions += _extension(43, b"\x02\x03\x04") + _extension(13, b"\0\x02\x04\x03")
    extensions += _extension(10, b"\0\x02\0\x1d") + _extension(51, b"\0\0")
    body = b"\x03\x03" + os.urandom(32) + b"\0" + b"\0\x02\x13\x01" + b"\x01\0"
    body += struct.pack("!H", len(extensions)) + extensions
    handshake = b"\x01" + struct.pack("!I", len(body))[1:] + body
    return b"\x16\x03\x01" + struct.pack("!H", len(handshake)) + handshake


def _tls(address: str, port: int, name: str) -> str:
    """Whether a TLS server answers there to this name."""
    with socket.socket() as client:
        client.settimeout(_TIMEOUT)
        client.connect((address, port))
        client.sendall(client_hello(name))
        answer = client.recv(_ANSWER)
    if answer[:1] != b"\x16":
        raise Refused("closed" if not answer else "a TLS alert")
    return "a server answers"


def _add_interface(name: str) -> str:
    kind = netlink.attribute(_IFLA_LINKINFO, netlink.attribute(_IFLA_INFO_KIND, b"dummy"))
    body = bytes(16) + netlink.attribute(_IFLA_IFNAME, name.encode() + b"\0") + kind
    flags = netlink.REQUEST | netlink.ACKNOWLEDGE | netlink.CREATE | netlink.EXCLUSIVE
    netlink.ask(socket.NETLINK_ROUTE, netlink.message(_RTM_NEWLINK, flags, body), _AT_ONCE)
    return "changed"


def _change_rules(table: str) -> str:
    """Adds an empty table: who can do that can also flush the others."""
    batch = struct.pack("=BBH", 0, 0, socket.htons(_NFT_SUBSYSTEM))
    named = struct.pack("=BBH", _NFPROTO_INET, 0, 0)
    named += netlink.attribute(_TABLE_NAME, table.encode() + b"\0")
    data = netlink.message(_NFNL_BEGIN, netlink.REQUEST, batch)
    data += netlink.message(
        _NFT_NEWTABLE, netlink.REQUEST | netlink.ACKNOWLEDGE | netlink.CREATE, named
    )
    data += netlink.message(_NFNL_END, netlink.REQUEST, batch)
    netlink.ask(netlink.NETFILTER, data, _AT_ONCE)
    return "changed"


_4, _6 = socket.AF_INET, socket.AF_INET6
_TCP, _UDP = socket.SOCK_STREAM, socket.SOCK_DGRAM

ATTEMPTS: Mapping[str, Callable[..., str]] = {
    "tcp4": lambda *where: _connect(_4, _TCP, *where),
    "tcp6": lambda *where: _connect(_6, _TCP, *where),
    "udp4": lambda *where: _connect(_4, _UDP, *where),
    "udp6": lambda *where: _connect(_6, _UDP, *where),
    "udp-lite": _udp_lite,
    "bind-tcp4": lambda *where: _bind(_4, _TCP, *where),
    "bind-tcp6": lambda *where: _bind(_6, _TCP, *where),
    "bind-udp4": lambda *where: _bind(_4, _UDP, *where),
    "socket": _socket,
    "resolve": _resolve,
    "proxy": _proxy,
    "tls": _tls,
    "add-interface": _add_interface,
    "change-rules": _change_rules,
}

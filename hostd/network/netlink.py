"""One message to the kernel by netlink, and its answer. See netlink(7), rtnetlink(7), libnftnl."""

from __future__ import annotations

import errno
import os
import socket
import struct

NETFILTER = 12
REQUEST, ACKNOWLEDGE, REPLACE, EXCLUSIVE, CREATE = 0x01, 0x04, 0x100, 0x200, 0x400
_ERROR = 2
_ANSWER = 4096


def message(kind: int, flags: int, body: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(body), kind, flags, 1, 0) + body


def attribute(kind: int, body: bytes) -> bytes:
    size = 4 + len(body)
    return struct.pack("=HH", size, kind) + body + b"\0" * (-size % 4)


def ask(protocol: int, data: bytes, timeout: float | None = None) -> tuple[int, bytes]:
    """The kind of the answer and what follows its header; OSError if the kernel refuses."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as kernel:
        kernel.settimeout(timeout)
        kernel.send(data)
        answer = kernel.recv(_ANSWER)
    kind, body = struct.unpack_from("=H", answer, 4)[0], answer[16:]
    error = struct.unpack_from("=i", body)[0] if kind == _ERROR else 0
    if error:
        raise OSError(-error, os.strerror(-error))
    return kind, body


def change(protocol: int, data: bytes) -> None:
    """For a message with ACKNOWLEDGE: OSError if no acknowledgement comes."""
    kind, _ = ask(protocol, data)
    if kind != _ERROR:  # NLMSG_ERROR with error 0 is the acknowledgement (netlink(7))
        raise OSError(errno.EPROTO, "the kernel does not say whether it has done it")

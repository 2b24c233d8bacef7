"""ClientHellos: made octet by octet, or as a real client makes them."""

from __future__ import annotations

import ssl
from contextlib import suppress


def vector(size: int, data: bytes) -> bytes:
    return len(data).to_bytes(size) + data


def sni(*names: bytes, kind: int = 0) -> tuple[int, bytes]:
    entries = b"".join(bytes([kind]) + vector(2, name) for name in names)
    return 0, vector(2, entries)


def body(*extensions: tuple[int, bytes], tail: bytes = b"", suites: bytes = b"\x13\x01") -> bytes:
    listed = b"".join(kind.to_bytes(2) + vector(2, data) for kind, data in extensions)
    start = b"\3\3" + bytes(32) + vector(1, b"") + vector(2, suites) + vector(1, b"\0")
    return start + vector(2, listed) + tail


def message(*extensions: tuple[int, bytes], **named: bytes) -> bytes:
    return b"\1" + vector(3, body(*extensions, **named))


def records(data: bytes, size: int = 16384) -> bytes:
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join(b"\x16\3\1" + vector(2, piece) for piece in pieces)


def openssl(name: str | None) -> bytes:
    """What a real client sends first."""
    context = ssl.create_default_context()
    context.check_hostname = name is not None
    context.verify_mode = ssl.CERT_REQUIRED if name else ssl.CERT_NONE
    out = ssl.MemoryBIO()
    session = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    with suppress(ssl.SSLWantReadError):
        session.do_handshake()
    return out.read()

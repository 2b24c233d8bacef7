"""One value of the broker's configuration: an address, a host name, a path."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import NoReturn

from broker.settings import (
    Address,
    Proxy,
)
from netpolicy.reading import PolicyError, Table

_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOST = re.compile(rf"(?:{_LABEL}\.)*{_LABEL}")
_URL = re.compile(r"https://([^/:@?#\s]+)(?::([0-9]{1,5}))?/?")
_PROXY = re.compile(r"http://([^/:@?#\s]+):([0-9]{1,5})/?")


def fail(table: Table, key: str, why: str, hint: str) -> NoReturn:
    raise PolicyError(table.at(key) if key else table.path, why, hint)


def read_text(table: Table, key: str, hint: str) -> str:
    if not table.has(key):
        fail(table, key, "is missing", hint)
    return table.text(key)


def read_port(table: Table, key: str, text: str, low: int) -> int:
    if not text.isascii() or not text.isdigit() or not low <= int(text) <= 65535:
        fail(table, key, "has a port out of range", f"use a port from {low} to 65535")
    return int(text)


def read_listen(table: Table) -> Address:
    hint = 'write an address and a port: address = "127.0.0.1:8443"'
    host, _, port = read_text(table, "address", hint).rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        address = str(ipaddress.ip_address(host))
    except ValueError:
        fail(table, "address", "is not an IP address with a port", hint)
    table.close()
    return Address(address, read_port(table, "address", port, 0))


def read_host_name(table: Table, key: str, text: str) -> str:
    """A lower-case name or an IPv4 address, optionally with a port."""
    host, colon, port = text.partition(":")
    if colon:
        read_port(table, key, port, 1)
    if len(host) > 253 or _HOST.fullmatch(host) is None:
        fail(table, key, "is not a host name", "write a lower-case host name, no wildcard")
    return text


def read_url(table: Table) -> Address:
    matched = _URL.fullmatch(read_text(table, "url", 'write url = "https://HOST[:PORT]"'))
    if matched is None:
        fail(table, "url", "is not https://HOST[:PORT]", "only https, no user, path or query")
    host = read_host_name(table, "url", matched[1])
    return Address(host, read_port(table, "url", matched[2] or "443", 1))


def read_proxy(table: Table) -> Proxy | None:
    if not table.has("proxy"):
        table.take("proxy")
        if table.has("proxy_provider"):
            fail(table, "proxy_provider", "stands without a proxy", "add proxy, or remove it")
        table.take("proxy_provider")
        return None
    matched = _PROXY.fullmatch(table.text("proxy"))
    if matched is None:
        hint = "a user and password for it go into a [provider.NAME] and proxy_provider"
        fail(table, "proxy", "is not http://HOST:PORT", hint)
    host = read_host_name(table, "proxy", matched[1])
    address = Address(host, read_port(table, "proxy", matched[2], 1))
    wanted = table.text("proxy_provider") if table.has("proxy_provider") else None
    table.take("proxy_provider")
    return Proxy(address, wanted)


def read_absolute(table: Table, key: str) -> Path:
    path = Path(read_text(table, key, "write the path from /"))
    if not path.is_absolute():
        fail(table, key, "is not an absolute path", "write the path from /")
    return path

"""How one value of the broker's configuration is read: an address, a host's name, a quantity."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from attrs import frozen

from gitmoat.shape import Misshapen, Shape, by_name, key, parsed
from netpolicy.format.units import format_duration, format_size, parse_duration, parse_size
from netpolicy.patterns.matchers import BadPattern

T = TypeVar("T")

DAY = 86400
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOST = re.compile(rf"(?:{_LABEL}\.)*{_LABEL}")
_URL = re.compile(r"https://([^/:@?#\s]+)(?::([0-9]{1,5}))?/?")
_PROXY = re.compile(r"http://([^/:@?#\s]+):([0-9]{1,5})/?")
_API = re.compile(r"https://([^/:@?#\s]+)(?::([0-9]{1,5}))?((?:/[A-Za-z0-9._-]+)*)/?")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
# Basic authentication (RFC 7617) has no way to carry a colon or a control character here.
_USERNAME = re.compile(r"[!-9;-~]{1,128}")
_LONGEST_PATH = 4096  # PATH_MAX of Linux
_LONGEST_URL = 1024  # a name may have 253 characters, with a scheme before it and a port behind


@frozen
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def authority(self) -> str:
        """As it stands in a URL of https, and in its Host header."""
        return self.host if self.port == 443 else str(self)


@frozen
class Api:
    address: Address
    prefix: str

    def __str__(self) -> str:
        return f"https://{self.address.authority}{self.prefix}"


# What a text means; BadPattern says what to write instead


def _port(text: str, low: int = 1) -> int:
    if not text.isascii() or not text.isdigit() or not low <= int(text) <= 65535:
        raise BadPattern("has a port out of range", f"use a port from {low} to 65535")
    return int(text)


def _ip_address(text: str, what: str) -> str:
    try:
        return str(ipaddress.ip_address(text.removeprefix("[").removesuffix("]")))
    except ValueError:
        raise BadPattern(what) from None


def _listen(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return Address(_ip_address(host, "is not an IP address with a port"), _port(port, 0))


def _loopback(text: str) -> Address:
    address = _listen(text)
    if not ipaddress.ip_address(address.host).is_loopback:
        raise BadPattern("is not on loopback")
    return address


def _resolver(text: str) -> Address:
    host, _, port = text.rpartition(":") if text.count(":") == 1 else (text, "", "53")
    return Address(_ip_address(host, "is not an IP address"), _port(port))


def _host_name(text: str) -> str:
    """A lower-case name or an IPv4 address, optionally with a port."""
    host, colon, port = text.partition(":")
    if colon:
        _port(port)
    if len(host) > 253 or _HOST.fullmatch(host) is None:
        raise BadPattern("is not a host name", "write a lower-case host name, no wildcard")
    return text


def _place(matched: re.Match[str]) -> Address:
    return Address(_host_name(matched[1]), _port(matched[2] or "443"))


def _url(text: str) -> Address:
    matched = _URL.fullmatch(text)
    if matched is None:
        raise BadPattern("is not https://HOST[:PORT]", "only https, no user, path or query")
    return _place(matched)


def _proxy(text: str) -> Address:
    matched = _PROXY.fullmatch(text)
    if matched is None:
        raise BadPattern("is not http://HOST:PORT")
    return _place(matched)


def _api(text: str) -> Api:
    matched = _API.fullmatch(text)
    if matched is None:
        hint = "https://HOST[:PORT][/PATH], such as https://git.example.com/api/v3"
        raise BadPattern("is not an https URL", hint)
    return Api(_place(matched), matched[3])


def is_username(text: str) -> bool:
    return _USERNAME.fullmatch(text) is not None


def _username(text: str) -> str:
    if not is_username(text):
        raise BadPattern("cannot be sent by Basic authentication", "use ASCII, no colon")
    return text


def _absolute(text: str) -> Path:
    if not text.startswith("/"):
        raise BadPattern("is not an absolute path", "write the path from /")
    return Path(text)


LISTEN = parsed(_listen, str)
LOOPBACK = parsed(_loopback, str)
RESOLVER = parsed(_resolver, str)
HOST_NAME = parsed(_host_name, str, most=_LONGEST_URL)
URL = parsed(_url, lambda place: f"https://{place.authority}", most=_LONGEST_URL)
PROXY = parsed(_proxy, lambda place: f"http://{place}", most=_LONGEST_URL)
API = parsed(_api, str, most=_LONGEST_URL)
USERNAME = parsed(_username, str)
PATH = parsed(_absolute, str, most=_LONGEST_PATH)


A_DURATION = 'a text with a unit, such as "90s", "30m" or "8h"'
_A_SIZE = 'a text with a unit, such as "200MiB" or "4GiB"'


def duration(most: int) -> Shape[int]:
    return _at_most(parsed(parse_duration, format_duration), most, format_duration)


def seconds(default: int, most: int = DAY) -> int:
    """A field in seconds, written as a duration."""
    return key(duration(most), default, hint=A_DURATION)


def octets(default: int, most: int) -> int:
    """A field in octets, written as a size."""
    shape = _at_most(parsed(parse_size, format_size), most, format_size)
    return key(shape, default, hint=_A_SIZE)


def _at_most(shape: Shape[int], most: int, write: Callable[[int], str]) -> Shape[int]:
    def read_bounded(value: object, path: str) -> int:
        found = shape.read(value, path)
        if found > most:
            raise Misshapen(path, f"must be at most {write(most)}")
        return found

    return Shape(read_bounded, shape.write)


def named(shape: Shape[T]) -> Shape[Mapping[str, T]]:
    """The tables [KEY.NAME]."""
    free = by_name(shape)

    def read_named(value: object, path: str) -> Mapping[str, T]:
        for name in value if isinstance(value, Mapping) else ():
            if _NAME.fullmatch(name) is None:
                hint = "use a-z, 0-9 and -, at most 63 characters"
                raise Misshapen(f"{path}.{name}", "is not a name", hint)
        return free.read(value, path)

    return Shape(read_named, free.write)

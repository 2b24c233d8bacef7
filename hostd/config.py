"""hostd.toml, read whole; an unknown key is an error that names it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from attrs import frozen

from gitmoat.identity.keyfile import KeyMalformed, parse_public
from gitmoat.shape import (
    Misshapen,
    Shape,
    choice,
    key,
    number,
    parsed,
    read,
    several,
    table,
    text,
    write,
)
from hostd.failures import Failed
from hostd.sandbox.uids import UidRange
from netpolicy.author import Author
from netpolicy.format.units import format_duration, parse_duration

_DURATION = parsed(parse_duration, format_duration)
_SHOWN, _MOST_SHOWN = ("/usr/local", "/opt"), 16
_LEAST_UID, _MOST_UID = 100_000, 2**32 - 3


def _address(value: str) -> tuple[str, int]:
    host, _, port = value.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port[:6]) < 65536:
        raise ValueError("must be HOST:PORT")
    return host.strip("[]"), int(port)


def _absolute(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError("must be an absolute path")
    return value


def _shown(value: str) -> str:
    """Nothing of the system's own or of a user's: those are seen already, or never."""
    plain = PurePosixPath(value)
    if ".." in plain.parts or str(plain) != value or not value.isprintable():
        raise ValueError("must be a plain absolute path")
    if not any(plain.is_relative_to(place) for place in _SHOWN):
        raise ValueError(f"must be {' or '.join(_SHOWN)}, or lie below")
    return value


def _public_key(value: str) -> str:
    parse_public(value)
    return value


_KEYS = several(parsed(_public_key, str, KeyMalformed), 1, 2)
_ONE_OR_TWO: Shape[tuple[str, ...]] = Shape(
    lambda value, path: _KEYS.read(value if isinstance(value, list) else [value], path),
    _KEYS.write,
)


@frozen
class Broker:
    address: tuple[str, int] = key(parsed(_address, lambda place: f"{place[0]}:{place[1]}"))
    key: tuple[str, ...] = key(_ONE_OR_TWO)  # as texts; two while one replaces the other


@frozen
class Uids:
    base: int = key(number(_LEAST_UID, _MOST_UID), 2_000_000_000)
    count: int = key(number(3, _MOST_UID), 300_000)

    def __attrs_post_init__(self) -> None:
        if self.base + self.count > _MOST_UID:
            raise ValueError(f"must lie between {_LEAST_UID} and {_MOST_UID}")


@frozen
class Runtime:
    """`show`: directories with tools, which sandboxes without an image see and cannot write."""

    default: str = key(choice("bwrap"), "bwrap")
    show: tuple[str, ...] = key(several(parsed(_shown, str), 0, _MOST_SHOWN), ())


@frozen
class GateTimes:
    """Seconds for a short answer of the workspace's git, for a stream without progress, and for
    a whole operation."""

    answer: int = key(_DURATION, 20)
    stall: int = key(_DURATION, 60)
    whole: int = key(_DURATION, 900)


@frozen
class Watchdog:
    interval: int = key(_DURATION, 15)


@frozen
class Docker:
    socket: str = key(parsed(_absolute, str), "/var/run/docker.sock")


@frozen
class Identity:
    """Who the commits of a sandbox are by, unless it is started with another author."""

    name: str = key(text(), Author().name)
    email: str = key(text(), Author().email)

    def __attrs_post_init__(self) -> None:
        Author(self.name, self.email)


@frozen
class Config:
    version: int = key(number(1, 1))
    host: str = key(text())
    broker: Broker = key(table(Broker))
    uids: Uids = key(table(Uids), Uids())
    runtime: Runtime = key(table(Runtime), Runtime())
    gate: GateTimes = key(table(GateTimes), GateTimes())
    watchdog: Watchdog = key(table(Watchdog), Watchdog())
    docker: Docker = key(table(Docker), Docker())
    identity: Identity = key(table(Identity), Identity())

    @property
    def author(self) -> Author:
        return Author(self.identity.name, self.identity.email)

    @property
    def uid_range(self) -> UidRange:
        return UidRange(self.uids.base, self.uids.count)


def parse_config(path: Path, content: str) -> Config:
    try:
        return read(Config, tomllib.loads(content))
    except (ValueError, RecursionError) as problem:
        raise Failed("N104", f"{path} is not TOML", why=str(problem), exit_code=8) from None
    except Misshapen as wrong:
        what = f"{path}: {wrong}"
        raise Failed("N104", what, fix=wrong.hint, exit_code=8) from None


def differences(before: Config, after: Config) -> list[str]:
    """The keys, in full, whose values are different."""
    return sorted(_different(write(before), write(after), ""))


def _different(before: Mapping[str, Any], after: Mapping[str, Any], where: str) -> Iterator[str]:
    for name in before.keys() | after.keys():
        one, other = before.get(name), after.get(name)
        if isinstance(one, dict) or isinstance(other, dict):  # what is the default is not written
            yield from _different(one or {}, other or {}, f"{where}{name}.")
        elif one != other:
            yield where + name


def load_config(path: Path) -> Config:
    try:
        content = path.read_text(encoding="utf-8")
    except OSError as problem:
        raise Failed(
            "N104", f"{path} cannot be read", why=str(problem.strerror), fix="hostctl up"
        ) from None
    return parse_config(path, content)

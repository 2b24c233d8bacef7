"""hostd.toml, parsed whole; an unknown key is an error that names it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from attrs import frozen

from hostd.failures import Failed
from hostd.uids import UidRange
from identity.keyfile import KeyMalformed, parse_public
from netpolicy.units import parse_duration

DEFAULT_UIDS = UidRange(base=2_000_000_000, count=300_000)
WATCHDOG_INTERVAL = 15
DOCKER_SOCKET = "/var/run/docker.sock"


@frozen
class GateTimes:
    """In seconds: a short answer of the workspace's git, a stream's standstill, the whole."""

    answer: int = 20
    stall: int = 60
    whole: int = 900


@frozen
class Config:
    host: str
    broker_address: tuple[str, int]
    broker_keys: tuple[str, ...]  # as texts; two while one takes the place of the other
    uids: UidRange = DEFAULT_UIDS
    default_runtime: str = "bwrap"
    gate_times: GateTimes = GateTimes()
    watchdog_interval: int = WATCHDOG_INTERVAL
    docker_socket: str = DOCKER_SOCKET


class _Table:
    """Takes keys out of a table one by one; what is left over is unknown."""

    def __init__(self, path: Path, where: str, data: Any) -> None:
        if not isinstance(data, dict):
            raise _invalid(path, where, "must be a table")
        self._path = path
        self._where = where
        self._rest = dict(data)

    def take(self, key: str, kind: type, default: Any = ...) -> Any:
        value = self._rest.pop(key, default)
        if value is ...:
            raise _invalid(self._path, self._name(key), "is missing")
        if value is not default and (not isinstance(value, kind) or isinstance(value, bool)):
            raise _invalid(self._path, self._name(key), f"must be of type {kind.__name__}")
        return value

    def table(self, key: str, default: Any = ...) -> _Table:
        return _Table(self._path, self._name(key), self.take(key, dict, default))

    def duration(self, key: str, default: int) -> int:
        text = self.take(key, str, None)
        try:
            return default if text is None else parse_duration(text)
        except ValueError as problem:
            raise _invalid(self._path, self._name(key), f"is {problem}") from None

    def end(self) -> None:
        for key in self._rest:
            raise _invalid(self._path, self._name(key), "is not a key this version knows")

    def _name(self, key: str) -> str:
        return f"{self._where}.{key}" if self._where else key


def _invalid(path: Path, where: str, what: str) -> Failed:
    return Failed("N104", f"{path}: {where} {what}", exit_code=8)


def _address(path: Path, text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise _invalid(path, "broker.address", "must be HOST:PORT")
    return host.strip("[]"), int(port)


def parse_config(path: Path, text: str) -> Config:
    try:
        table = _Table(path, "", tomllib.loads(text))
    except (ValueError, RecursionError) as problem:
        raise Failed("N104", f"{path} is not TOML", why=str(problem), exit_code=8) from None
    if table.take("version", int) != 1:
        raise _invalid(path, "version", "must be 1")
    broker = table.table("broker")
    uids = table.table("uids", {})
    runtime = table.table("runtime", {})
    gate = table.table("gate", {})
    watchdog = table.table("watchdog", {})
    docker = table.table("docker", {})
    config = Config(
        host=table.take("host", str),
        broker_address=_address(path, broker.take("address", str)),
        broker_keys=_keys(path, broker),
        uids=UidRange(
            uids.take("base", int, DEFAULT_UIDS.base), uids.take("count", int, DEFAULT_UIDS.count)
        ),
        default_runtime=runtime.take("default", str, "bwrap"),
        gate_times=_gate_times(gate),
        watchdog_interval=watchdog.duration("interval", WATCHDOG_INTERVAL),
        docker_socket=docker.take("socket", str, DOCKER_SOCKET),
    )
    for part in (broker, uids, runtime, gate, watchdog, docker, table):
        part.end()
    return _checked(path, config)


def _keys(path: Path, table: _Table) -> tuple[str, ...]:
    given = table.take("key", object)
    texts = given if isinstance(given, list) else [given]
    try:
        keys = [parse_public(text if isinstance(text, str) else "") for text in texts]
    except KeyMalformed as problem:
        raise _invalid(path, "broker.key", str(problem)) from None
    if not 0 < len(keys) <= 2:
        raise _invalid(path, "broker.key", "must be one key, or two")
    return tuple(dict.fromkeys(texts))


def _gate_times(table: _Table) -> GateTimes:
    usual = GateTimes()
    return GateTimes(
        answer=table.duration("answer", usual.answer),
        stall=table.duration("stall", usual.stall),
        whole=table.duration("whole", usual.whole),
    )


def _checked(path: Path, config: Config) -> Config:
    if config.uids.base < 100_000 or config.uids.base + config.uids.count >= 2**32 - 2:
        raise _invalid(path, "uids", "must lie between 100000 and 4294967293")
    if config.uids.sandboxes() < 1:
        raise _invalid(path, "uids.count", "must be at least 3")
    if not config.docker_socket.startswith("/"):
        raise _invalid(path, "docker.socket", "must be an absolute path")
    if config.default_runtime != "bwrap":
        raise _invalid(path, "runtime.default", 'must be "bwrap"')
    return config


def load_config(path: Path) -> Config:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as problem:
        raise Failed(
            "N104", f"{path} cannot be read", why=str(problem.strerror), fix="hostctl up"
        ) from None
    return parse_config(path, text)

"""broker.toml and broker.d/*.toml, read whole into one frozen value or refused whole."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from attrs import define, field

from broker.config.named_tables import Additions, Main
from broker.config.settings import (
    BrokerConfig,
    FileProvider,
    HostConfig,
    ProviderConfig,
    Timeouts,
    UpstreamConfig,
    VaultProvider,
)
from broker.config.tree import Tree
from broker.errors import Misconfigured
from gitmoat.audit.journal import Sizes
from gitmoat.shape import Misshapen, read

T = TypeVar("T")

_FILE_LIMIT = 1 << 20


@define(eq=False)
class _Merged:
    """The three families of named tables, over all files, each name given once."""

    _tree: Tree
    upstreams: dict[str, UpstreamConfig] = field(factory=dict, init=False)
    providers: dict[str, ProviderConfig] = field(factory=dict, init=False)
    hosts: dict[str, HostConfig] = field(factory=dict, init=False)
    _files: dict[str, str] = field(factory=dict, init=False)

    def add(self, file: str, given: Additions, most: Timeouts) -> None:
        tree = self._tree
        self._add(
            file,
            "upstream",
            self.upstreams,
            {name: each.upstream(name, tree, most) for name, each in given.upstream.items()},
        )
        self._add(file, "provider", self.providers, given.provider)
        self._add(
            file, "host", self.hosts, {name: each.host() for name, each in given.host.items()}
        )

    def _add(self, file: str, family: str, known: dict[str, T], more: Mapping[str, T]) -> None:
        for name, value in more.items():
            path = f"{family}.{name}"
            if path in self._files:
                raise Misshapen(path, f"is given in {self._files[path]} too", "keep one of the two")
            self._files[path] = file
            known[name] = value

    def _refuse(self, path: str, key: str, why: str, hint: str) -> NoReturn:
        raise Misconfigured(self._files[path], f"{path}.{key}", why, hint)

    def check(self) -> None:
        self._check_providers()
        self._check_places()
        self._check_keys()

    def _check_providers(self) -> None:
        hint = "add it with `hostctl cred add NAME`, or correct the name"
        for name, upstream in self.upstreams.items():
            if upstream.provider not in self.providers:
                self._refuse(f"upstream.{name}", "provider", "names no [provider.NAME]", hint)
            wanted = upstream.proxy.provider if upstream.proxy is not None else None
            if wanted is not None and not isinstance(
                self.providers.get(wanted), FileProvider | VaultProvider
            ):
                why = "names no [provider.NAME] of type file or vault"
                self._refuse(f"upstream.{name}", "proxy_provider", why, hint)

    def _check_places(self) -> None:
        owners: dict[str, str] = {}
        for name, upstream in self.upstreams.items():
            for place in (upstream.authority, *upstream.also):
                if owners.setdefault(place, name) != name:
                    why = f"shares {place} with upstream.{owners[place]}"
                    self._refuse(f"upstream.{name}", "url", why, "keep one of them")

    def _check_keys(self) -> None:
        owners: dict[bytes, str] = {}
        for name, host in self.hosts.items():
            for key in host.keys:
                if owners.setdefault(key, name) != name:
                    why = f"is the key of host.{owners[key]} too"
                    self._refuse(f"host.{name}", "key", why, "enrol each host with its own key")


def _check_owner(file: str, status: os.stat_result) -> None:
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o022:
        hint = "chown root and chmod 0640, then try again"
        raise Misconfigured(file, "", "can be changed by others", hint)


def _load(tree: Tree, path: Path) -> dict[str, Any]:
    hint = "the file must be readable by root and by the broker's group (root:broker, 0640)"
    try:
        data, status = tree.read(path, _FILE_LIMIT)
    except OSError as error:
        raise Misconfigured(str(path), "", f"cannot be read ({error.strerror})", hint) from None
    _check_owner(str(path), status)
    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise Misconfigured(str(path), "", str(error), "mend the TOML syntax") from None


def _read(tree: Tree, path: Path, into: Callable[[dict[str, Any]], T]) -> T:
    """What one file says; an error gets the file's name in front of its key's path."""
    data = _load(tree, path)
    try:
        return into(data)
    except Misshapen as error:
        raise Misconfigured(str(path), error.path, error.what, error.hint) from None


def _additions(tree: Tree, directory: Path) -> list[Path]:
    try:
        return [directory / name for name in tree.names(directory) if name.endswith(".toml")]
    except OSError as error:
        why = f"cannot be listed ({error.strerror})"
        raise Misconfigured(str(directory), "", why, "chown root:broker, chmod 0750") from None


def load_config(tree: Tree, main: Path, additions: Path) -> BrokerConfig:
    """Everything or nothing; Misconfigured names the file and the key path."""
    merged = _Merged(tree)

    def read_main(data: dict[str, Any]) -> Main:
        # What is missing then is the address, whose hint says how it is written.
        given = read(Main, {"listen": {}, **data})
        merged.add(str(main), given, given.timeouts)
        return given

    given = _read(tree, main, read_main)
    for path in _additions(tree, additions):

        def read_addition(data: dict[str, Any], file: str = str(path)) -> None:
            merged.add(file, read(Additions, data), given.timeouts)

        _read(tree, path, read_addition)
    merged.check()
    return _config(given, merged)


def _config(given: Main, merged: _Merged) -> BrokerConfig:
    process = given.process
    return BrokerConfig(
        listen=given.listen.address,
        uid=process.uid,
        gid=process.uid if process.gid is None else process.gid,
        key_file=process.key_file,
        store=given.store.url,
        timeouts=given.timeouts,
        limits=given.limits,
        audit=Sizes(given.audit.segment, given.audit.keep),
        metrics=given.metrics.address,
        upstreams=merged.upstreams,
        providers=merged.providers,
        hosts=merged.hosts,
        egress=given.egress,
    )

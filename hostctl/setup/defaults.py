"""The default configuration, which `up` writes where there is none yet."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gitmoat.identity.control_socket import ControlSocketError, make_private_directory
from gitmoat.paths import Paths
from hostctl.failure import Failure, usage
from hostctl.setup.configfile import create_file, read_document, toml

if TYPE_CHECKING:
    from nacl.signing import SigningKey

BROKER_UID = 1999999999
BROKER_ADDRESS = "127.0.0.1:8443"
_PORTS = range(8443, 8543)
UID_BASE = 2000000000
UID_COUNT = 300000


class Wanted(NamedTuple):
    """A file or directory of ours: the widest mode it may have, and its owners."""

    path: Path
    mode: int
    owners: tuple[int, ...]
    group: int = 0


def need_directory(paths: Paths) -> None:
    """A root that is misspelt must not become an installation."""
    if not paths.root.is_dir():
        what = f"--root, or GITMOAT_ROOT, names no directory: {paths.root}"
        raise usage(what, f"mkdir -m 0755 {paths.root}")


def write_defaults(paths: Paths, address: str | None = None) -> None:
    """Writes directories, keys and the two configuration files; what exists stays as it is.

    Without an address the broker gets the first port that is free, while neither file exists."""
    # PyNaCl takes long to import, and most who import this module want no key.
    from gitmoat.identity.keyfile import KeyFileUnsafe, load_or_create_key, public_text

    broker = broker_uid(paths)
    try:
        make_directories(paths, broker)
        host_key = public_text(load_or_create_key(paths.host_key))
        broker_key = public_text(_broker_key(paths, broker))
    except ControlSocketError as error:
        raise Failure(error.code, "a directory is not safe to use", error.what, error.fix) from None
    except KeyFileUnsafe as error:
        raise Failure("C101", "a key file is not safe to use", str(error)) from None
    if not paths.broker_toml.exists():
        chosen = address or (BROKER_ADDRESS if paths.hostd_toml.exists() else _free_address())
        create_file(paths.broker_toml, broker_toml(chosen, host_key), 0o640, broker)
    create_file(paths.hostd_toml, hostd_toml(broker_address(paths), broker_key), 0o640)


def _free_address() -> str:
    """The usual one where it is free, and where none is: the broker then says what is wrong."""
    host = BROKER_ADDRESS.partition(":")[0]
    free = (port for port in _PORTS if _is_free(host, port))
    return f"{host}:{next(free, _PORTS[0])}"


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the broker does
        try:
            tried.bind((host, port))
        except OSError:
            return False
    return True


def _broker_key(paths: Paths, broker: int) -> SigningKey:
    """Made here, unless the configuration names another file that holds it."""
    from gitmoat.identity.keyfile import load_key, load_or_create_key

    elsewhere = _configured(paths, "process", "key_file")
    if not isinstance(elsewhere, str):
        return load_or_create_key(paths.broker_key, broker)
    try:
        return load_key(elsewhere, Path(elsewhere).stat().st_uid)
    except OSError as error:
        what = f"the broker's key {elsewhere} cannot be read"
        raise Failure("B104", what, error.strerror or "", "correct process.key_file") from None


def directories(paths: Paths, broker: int) -> list[Wanted]:
    """Each with its one owner: `up` makes them so, `doctor` checks that they are."""
    return [
        Wanted(paths.etc, 0o755, (0,)),
        Wanted(paths.broker_d, 0o750, (0,), broker),
        Wanted(paths.policies, 0o755, (0,)),
        Wanted(paths.state, 0o755, (0,)),
        Wanted(paths.broker_state, 0o700, (broker,), broker),
        Wanted(paths.hostd_state, 0o700, (0,)),
        Wanted(paths.run, 0o700, (0,)),
        Wanted(paths.log_dir, 0o700, (0,)),
    ]


def make_directories(paths: Paths, broker: int) -> None:
    for each in directories(paths, broker):
        (owner,) = each.owners
        make_private_directory(each.path, each.mode, owner, each.group, root=paths.root)


def broker_toml(address: str, host_key: str) -> str:
    return toml(
        {
            "": {"version": 1},
            "listen": {"address": address},
            "process": {"uid": BROKER_UID},
            "store": {"url": "sqlite:"},
            "host.local": {"key": host_key, "allow": "any"},
        }
    )


def hostd_toml(address: str, broker_key: str) -> str:
    return toml(
        {
            "": {"version": 1, "host": "local"},
            "broker": {"address": address, "key": broker_key},
            "uids": {"base": UID_BASE, "count": UID_COUNT},
        }
    )


def broker_uid(paths: Paths) -> int:
    """The broker's uid, which is its gid too: as configured, or the default."""
    uid = _configured(paths, "process", "uid")
    return uid if isinstance(uid, int) else BROKER_UID


def broker_address(paths: Paths) -> str:
    address = _configured(paths, "listen", "address")
    return address if isinstance(address, str) else BROKER_ADDRESS


def _configured(paths: Paths, table: str, key: str) -> object:
    value = read_document(paths.broker_toml).get(table)
    return value.get(key) if isinstance(value, dict) else None

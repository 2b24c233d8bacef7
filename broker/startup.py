"""Opens everything the broker needs while it may.

Sockets come first, so that a busy port changes nothing. Afterwards the uid can be dropped: nothing
here is opened by its path again.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen
from nacl.signing import SigningKey

from broker.api.listener import bind
from broker.config.files import load_config
from broker.config.settings import BrokerConfig
from broker.config.tree import Tree, open_tree
from broker.config.values import Address
from broker.credentials.vault import Vault, open_vault
from broker.errors import Misconfigured
from broker.sessions.store.interface import Store, StoreDamaged, StoreUnavailable
from broker.sessions.store.sqlite import open_sqlite, store_files
from broker.upstream.routes import check_files, check_upstreams
from gitmoat.audit.journal import Journal, JournalUnavailable, Sizes, open_journal
from gitmoat.fault import Fault
from gitmoat.identity.control_socket import (
    ControlSocketError,
    listen_control,
    make_private_directory,
)
from gitmoat.identity.keyfile import KeyFileUnsafe, load_key, load_or_create_key
from gitmoat.paths import Paths

_UNIT = "compare the units with those in share/gitmoat/systemd"


@frozen
class Ids:
    """Who the broker becomes. Started by anybody but root it stays who it is."""

    uid: int
    gid: int
    drops: bool

    @property
    def pair(self) -> tuple[int, int]:
        return self.uid, self.gid


@frozen(eq=False)
class Resources:
    paths: Paths
    tree: Tree
    config: BrokerConfig
    ids: Ids
    listener: socket.socket
    address: Address
    admin: socket.socket
    state: int  # the open state directory
    metrics: tuple[socket.socket, ...]
    key: SigningKey
    store: Store
    journal: Journal
    vault: Vault


def _ids(config: BrokerConfig) -> Ids:
    if os.geteuid() == 0:
        return Ids(config.uid, config.gid, drops=True)
    return Ids(os.geteuid(), os.getegid(), drops=False)


@contextmanager
def acting_as(ids: Ids) -> Iterator[None]:
    """File access as the broker will have it; only for the start, which has one thread."""
    if not ids.drops:
        yield
        return
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(ids.gid)
    os.seteuid(ids.uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


def _tree(paths: Paths) -> Tree:
    try:
        return open_tree(paths.etc)
    except OSError as error:
        why = f"cannot be opened ({error.strerror})"
        raise Misconfigured(str(paths.etc), "", why, "start with `hostctl up`") from None


def read_config(paths: Paths, tree: Tree) -> BrokerConfig:
    return load_config(tree, paths.broker_toml, paths.broker_d)


def _make_directories(paths: Paths, ids: Ids) -> None:
    for path in (paths.broker_state, paths.broker_audit.parent, paths.broker_vault):
        make_private_directory(path, 0o700, ids.uid, ids.gid, root=paths.root)


def _take_admin(paths: Paths, handed: socket.socket) -> socket.socket:
    """The control socket as a service manager made it, at the place where hostctl looks."""
    listens = handed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    place = handed.getsockname() if handed.family == socket.AF_UNIX else None
    if not listens or place != str(paths.broker_admin_socket):
        why = f"it is not a listening socket at {paths.broker_admin_socket}"
        raise Fault("C101", "the socket handed over cannot be used", why, _UNIT)
    handed.set_inheritable(False)
    handed.setblocking(False)
    return handed


def _listen_admin(paths: Paths) -> socket.socket:
    uid, gid = os.geteuid(), os.getegid()
    make_private_directory(paths.run, 0o700, uid, gid, root=paths.root)
    return listen_control(paths.broker_admin_socket, uid, root=paths.root)


def _listen_metrics(paths: Paths, config: BrokerConfig, own: bool) -> tuple[socket.socket, ...]:
    """A Unix socket beside the admin's, and an address on loopback if one is configured.

    Without `own` the directory is not ours: a service manager made the admin's socket there.
    """
    found = []
    if own:
        found.append(listen_control(paths.broker_metrics_socket, os.geteuid(), root=paths.root))
    if config.metrics is not None:
        found.append(bind(config.metrics))
    return tuple(found)


def _open_store(path: Path, ids: Ids) -> Store:
    try:
        store = open_sqlite(path)
    except StoreUnavailable as error:
        fix = f"free space on the disk of {path}"
        raise Fault("B103", "the broker's store cannot be used", str(error), fix) from None
    except (StoreDamaged, OSError) as error:
        fix = f"keep a copy of {path} and find out why; a new one forgets used grant counters"
        raise Fault("B103", "the broker's store cannot be used", str(error), fix) from None
    for file in store_files(path) if ids.drops else ():
        os.chown(file, *ids.pair, follow_symlinks=False)
    return store


def _open_journal(path: Path, ids: Ids, sizes: Sizes) -> Journal:
    try:
        return open_journal(path, "broker", time.time, uid=ids.uid, sizes=sizes)
    except JournalUnavailable as error:
        fix = f"look at {path}"
        raise Fault("B103", "the audit journal cannot be written", error.what, fix) from None


def _load_key(config: BrokerConfig, paths: Paths, ids: Ids) -> SigningKey:
    """Ours, or one that somebody else keeps for us: then root's or ours, and never made here."""
    if config.key_file is None:
        return load_or_create_key(paths.broker_key, ids.uid)
    try:
        owner = config.key_file.stat().st_uid
        return load_key(config.key_file, owner if owner in (0, ids.uid) else ids.uid)
    except OSError as error:
        why = f"{config.key_file}: {error.strerror}"
        fix = "put 64 hex digits there, 0400; or remove process.key_file"
        raise Fault("B104", "the broker's key cannot be read", why, fix) from None


def _open_directory(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _open_vault(path: Path, key: SigningKey) -> Vault:
    return open_vault(_open_directory(path), key)


def open_everything(paths: Paths, handed: socket.socket | None = None) -> Resources:
    """Fault says what is wrong; before the two sockets are ours nothing is changed."""
    tree = _tree(paths)
    config = read_config(paths, tree)
    ids = _ids(config)
    with acting_as(ids):
        check_files(read_config(paths, tree), tree, ids.pair)
    check_upstreams(config)
    listener = bind(config.listen)
    host, port = listener.getsockname()[:2]
    try:
        admin = _listen_admin(paths) if handed is None else _take_admin(paths, handed)
        metrics = _listen_metrics(paths, config, own=handed is None)
        _make_directories(paths, ids)
        key = _load_key(config, paths, ids)
    except ControlSocketError as error:
        what = "a directory or socket of the broker cannot be used"
        raise Fault(error.code, what, error.what, error.fix) from None
    except KeyFileUnsafe as error:
        raise Fault("C101", "the broker's key is not safe to use", str(error)) from None
    return Resources(
        paths=paths,
        tree=tree,
        config=config,
        ids=ids,
        listener=listener,
        address=Address(host, port),
        admin=admin,
        state=_open_directory(paths.broker_state),
        metrics=metrics,
        key=key,
        store=_open_store(paths.broker_store, ids),
        journal=_open_journal(paths.broker_audit, ids, config.audit),
        vault=_open_vault(paths.broker_vault, key),
    )

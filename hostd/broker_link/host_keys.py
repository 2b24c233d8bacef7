"""This host's key and the broker's pinned ones; both can be replaced while hostd runs."""

from __future__ import annotations

import os

from attrs import define
from nacl.signing import SigningKey

from gitmoat.identity.keyfile import KeyFileUnsafe, load_key, parse_public, promote_key, public_text
from gitmoat.paths import Paths
from hostd.failures import Failed


@define(eq=False)
class Keys:
    """There are two pins while the broker's key is replaced; `seen` is the key it last showed."""

    host: SigningKey
    pins: tuple[str, ...]
    seen: str | None = None

    @property
    def pinned(self) -> frozenset[bytes]:
        return frozenset(map(parse_public, self.pins))

    @property
    def audience(self) -> str:
        """The key of the broker that a grant is for."""
        return self.seen if self.seen in self.pins and self.seen else self.pins[0]


def next_key(paths: Paths) -> SigningKey:
    fix = "`hostctl host rotate-key` makes it"
    try:
        return load_key(paths.host_key_next, 0)
    except FileNotFoundError:
        raise Failed("N104", "there is no next key of this host", fix=fix) from None
    except KeyFileUnsafe as problem:
        raise Failed("C101", "the next key is not safe to use", why=problem.what) from None


def promote(paths: Paths, keys: Keys, key: SigningKey) -> None:
    folder = os.open(paths.host_key.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        promote_key(folder, paths.host_key_next.name, paths.host_key.name)
    finally:
        os.close(folder)
    keys.host = key


def described(paths: Paths, keys: Keys) -> dict[str, object]:
    """For `status`: the host's key, since when it is used, and the pins."""
    since = int(paths.host_key.stat().st_mtime)
    return {"key": public_text(keys.host), "key_since": since, "pins": list(keys.pins)}

"""The broker's own key: what it is known by, and what the vault is sealed to."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from attrs import define, field
from nacl.signing import SigningKey

from broker.credentials.vault import Vault
from gitmoat.fault import Fault
from gitmoat.identity.keyfile import KeyFileUnsafe, load_key_at, promote_key, public_text

_FILE = "broker.key"
_NEXT = "broker.key.next"


@define(eq=False)
class OwnKey:
    """Replaced while we run: each step of it can be the last one before a crash."""

    _folder: int
    _uid: int
    _key: SigningKey
    _vault: Vault
    _elsewhere: Path | None = None  # where somebody else keeps it, who alone replaces it
    _since: int = field(init=False, default=0)
    _changed: list[Callable[[SigningKey], None]] = field(init=False, factory=list)

    def __attrs_post_init__(self) -> None:
        if self._elsewhere is not None:  # once the uid is dropped it may be out of reach
            self._since = int(self._elsewhere.stat().st_mtime)

    @property
    def text(self) -> str:
        return public_text(self._key)

    def since(self) -> int:
        """When its file was made, as wall time."""
        if self._elsewhere is not None:
            return self._since
        return int(os.stat(_FILE, dir_fd=self._folder).st_mtime)

    def on_change(self, callback: Callable[[SigningKey], None]) -> None:
        self._changed.append(callback)

    def switch(self) -> None:
        """The vault is readable with the key in place before, at and after the one rename."""
        key = self._next()
        self._vault.prepare(key)
        promote_key(self._folder, _NEXT, _FILE)
        self._key = key
        self._vault.use(key)
        for callback in self._changed:
            callback(key)

    def _next(self) -> SigningKey:
        if self._elsewhere is not None:
            fix = "add credentials anew after its owner has replaced it: they are sealed to it"
            why = f"it is kept in {self._elsewhere}"
            raise Fault("B102", "the broker's key is not ours to replace", why, fix)
        fix = "`hostctl broker rotate-key` makes it"
        try:
            return load_key_at(self._folder, _NEXT, self._uid)
        except FileNotFoundError:
            raise Fault("B102", "there is no next key", f"{_NEXT} is not there", fix) from None
        except KeyFileUnsafe as error:
            raise Fault("C101", "the next key is not safe to use", error.what, fix) from None

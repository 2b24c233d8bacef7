"""Credentials sealed at rest to the broker's own key, one file each, opened only when used."""

from __future__ import annotations

import base64
import json
import os
import re
import secrets
from typing import Any

from attrs import define
from nacl.exceptions import CryptoError
from nacl.public import PrivateKey, SealedBox
from nacl.signing import SigningKey

from broker.config.values import is_username
from broker.credentials.providers.credential import Credential, unavailable
from broker.errors import Unavailable
from gitmoat.fault import Fault
from gitmoat.identity.secret import Secret

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_SUFFIX = ".sealed"
_NEXT = ".next"
_LIMIT = 64 * 1024
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@define(eq=False)
class Vault:
    """Works on an open directory: its path may be out of reach for the broker's uid."""

    directory: int
    _box: SealedBox[PrivateKey]

    def add(self, name: str, username: str, password: Secret) -> bool:
        """Keeps a credential under `name`; True when it replaced an earlier one."""
        check_entry(name, username)
        fields = {
            "name": name,
            "username": username,
            "password": base64.b64encode(password.expose()).decode(),
        }
        replaced = name in self.names()
        self._write(name + _SUFFIX, self._box.encrypt(json.dumps(fields).encode()))
        return replaced

    def get(self, name: str) -> Credential:
        fix = f"`hostctl cred add {name} --stdin`"
        try:
            sealed = self._read(name + _SUFFIX)
        except OSError as error:
            raise unavailable(f"vault entry {name}: {error.strerror}", fix) from None
        credential = self._open(name, sealed)
        if credential is None:
            raise unavailable(f"vault entry {name} is not sealed to this broker's key", fix)
        return credential

    def prepare(self, key: SigningKey) -> None:
        """A second copy of every entry, sealed to the key that will be ours."""
        box = _box_of(key)
        for name in self.names():
            opened = self._read(name + _SUFFIX)
            try:
                self._write(name + _SUFFIX + _NEXT, box.encrypt(self._box.decrypt(opened)))
            except CryptoError:
                continue  # it was not ours to open before, and is not now

    def use(self, key: SigningKey) -> None:
        """With this key from now on; what was prepared for it takes the old copies' place."""
        self._box = _box_of(key)
        self.settle()

    def settle(self) -> None:
        """Ends what a change of keys began, whenever it was cut off."""
        for file in os.listdir(self.directory):  # noqa: PTH208 - by descriptor
            if file.startswith("."):  # it was being written
                os.unlink(file, dir_fd=self.directory)
                continue
            if not file.endswith(_SUFFIX + _NEXT):
                continue
            try:
                self._box.decrypt(self._read(file))
            except CryptoError:  # the change did not come to its point
                os.unlink(file, dir_fd=self.directory)
            else:
                plain = file.removesuffix(_NEXT)
                os.rename(file, plain, src_dir_fd=self.directory, dst_dir_fd=self.directory)
        os.fsync(self.directory)

    def remove(self, name: str) -> bool:
        """False when there was none."""
        try:
            os.unlink(name + _SUFFIX, dir_fd=self.directory)
        except FileNotFoundError:
            return False
        os.fsync(self.directory)
        return True

    def username(self, name: str) -> str:
        """For listings; empty when the entry cannot be opened."""
        try:
            return self.get(name).username
        except Unavailable:
            return ""

    def names(self) -> list[str]:
        found = os.listdir(self.directory)  # noqa: PTH208 - by descriptor
        names = (one.removesuffix(_SUFFIX) for one in found if one.endswith(_SUFFIX))
        return sorted(one for one in names if _NAME.fullmatch(one))

    def _open(self, name: str, sealed: bytes) -> Credential | None:
        try:
            fields: dict[str, Any] = json.loads(self._box.decrypt(sealed))
        except (CryptoError, ValueError):
            return None
        # A file renamed to another entry's name must not serve another upstream.
        if fields["name"] != name:
            return None
        return Credential(fields["username"], Secret(base64.b64decode(fields["password"])))

    def _read(self, file: str) -> bytes:
        opened = os.open(file, _READ, dir_fd=self.directory)
        try:
            return os.read(opened, _LIMIT)
        finally:
            os.close(opened)

    def _write(self, file: str, sealed: bytes) -> None:
        passing = f".{file}.{secrets.token_hex(8)}"
        with os.fdopen(os.open(passing, _CREATE, 0o600, dir_fd=self.directory), "wb") as opened:
            opened.write(sealed)
            opened.flush()
            os.fsync(opened.fileno())
        os.rename(passing, file, src_dir_fd=self.directory, dst_dir_fd=self.directory)
        os.fsync(self.directory)


def check_entry(name: str, username: str) -> None:
    """Fault when such an entry cannot be kept."""
    what = "this credential cannot be kept"
    if _NAME.fullmatch(name) is None:
        raise Fault("B104", what, "the name is not one", "use a-z, 0-9 and -, at most 63")
    if not is_username(username):
        raise Fault("B104", what, "the username cannot be sent", "use ASCII without a colon")


def open_vault(directory: int, key: SigningKey) -> Vault:
    """`directory` is an open descriptor that the vault keeps."""
    vault = Vault(directory, _box_of(key))
    vault.settle()
    return vault


def _box_of(key: SigningKey) -> SealedBox[PrivateKey]:
    return SealedBox(key.to_curve25519_private_key())

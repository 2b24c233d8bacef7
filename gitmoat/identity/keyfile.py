"""Long-lived Ed25519 keys in files that only their owner may read."""

from __future__ import annotations

import binascii
import os
import secrets
import stat
from base64 import b64decode, b64encode
from pathlib import Path

from nacl.signing import SigningKey

KEY_OCTETS = 32
_FILE_LIMIT = 128


class KeyFileUnsafe(Exception):
    """A key file is not one we may use; nothing was changed."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path}: {what}")
        self.path = path
        self.what = what


class KeyMalformed(Exception):
    """A text is not the public form of an Ed25519 key."""


def load_or_create_key(path: str | Path, uid: int | None = None) -> SigningKey:
    """The key in `path`, made there first if there is none; `uid` owns it (default: we do)."""
    where = Path(path)
    owner = os.geteuid() if uid is None else uid
    try:
        return _load(where, owner)
    except FileNotFoundError:
        _create(where, owner)
        return _load(where, owner)


def load_key(path: str | Path, uid: int | None = None) -> SigningKey:
    """The key in `path`; FileNotFoundError if there is none."""
    return _load(Path(path), os.geteuid() if uid is None else uid)


def load_key_at(folder: int, name: str, uid: int) -> SigningKey:
    """The key `name` in an open directory; FileNotFoundError if there is none."""
    return _load(Path(name), uid, folder)


def promote_key(folder: int, name: str, over: str) -> None:
    """Puts the key `name` in the place of the key `over`: one step, and on disk."""
    os.rename(name, over, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)


def public_text(key: SigningKey) -> str:
    """The public half as it is written into configuration."""
    return b64encode(key.verify_key.encode()).decode("ascii")


def parse_public(text: str) -> bytes:
    """The 32 bytes behind `public_text`; the one spelling only."""
    try:
        raw = b64decode(text.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error) as problem:
        raise KeyMalformed("a public key is 44 characters of base64") from problem
    if len(raw) != KEY_OCTETS or b64encode(raw).decode("ascii") != text:
        raise KeyMalformed("a public key is 44 characters of base64")
    return raw


def _load(path: Path, owner: int, folder: int | None = None) -> SigningKey:
    # O_NONBLOCK: a FIFO in its place would hold up open(2) until somebody writes.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(path, flags, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError as problem:
        raise KeyFileUnsafe(path, problem.strerror or "cannot be opened") from problem
    try:
        _check(path, os.fstat(fd), owner)
        return _parse_seed(path, os.read(fd, _FILE_LIMIT))
    finally:
        os.close(fd)


def _check(path: Path, found: os.stat_result, owner: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise KeyFileUnsafe(path, "is not a regular file")
    if found.st_uid != owner:
        raise KeyFileUnsafe(path, f"belongs to uid {found.st_uid}, not {owner}")
    if stat.S_IMODE(found.st_mode) & ~0o600:
        raise KeyFileUnsafe(path, "has a mode wider than 0600")
    # A hard link elsewhere would keep the key when this name is removed or replaced.
    if found.st_nlink != 1:
        raise KeyFileUnsafe(path, "has a second name")


def _parse_seed(path: Path, text: bytes) -> SigningKey:
    line = text.removesuffix(b"\n")
    if len(line) != 2 * KEY_OCTETS or line.strip(b"0123456789abcdef"):
        raise KeyFileUnsafe(path, "does not hold one key of 64 hex digits")
    return SigningKey(bytes.fromhex(line.decode("ascii")))


def _create(path: Path, owner: int) -> None:
    """Write a fresh key under a temporary name and link it: link(2) never replaces a file, so there
    is never half a key, and never one in another's place."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    temporary = f".{path.name}.{secrets.token_hex(8)}"
    try:
        _write_seed(folder, temporary, owner)
        os.link(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        pass  # somebody else was first; theirs is loaded
    finally:
        _remove(folder, temporary)
        os.close(folder)


def _remove(folder: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass
    os.fsync(folder)


def _write_seed(folder: int, name: str, owner: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        if owner != os.geteuid():
            os.fchown(fd, owner, -1)
        line = secrets.token_bytes(KEY_OCTETS).hex().encode("ascii") + b"\n"
        if os.write(fd, line) != len(line):
            raise OSError("short write")
        os.fsync(fd)
    finally:
        os.close(fd)

"""Files that only root can have written: rules that allow may be made from them."""

from __future__ import annotations

import os
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path

MOST_BYTES = 1 << 20
_MOST_FILES = 200
_OTHERS_WRITE = 0o022


def trusted_texts(root: Path, patterns: tuple[str, ...]) -> tuple[dict[str, str], list[str]]:
    """Path (as it is below root) and text of every file that fits, in the patterns' order; and
    notes on those that are there and cannot be trusted."""
    texts: dict[str, str] = {}
    notes: list[str] = []
    for pattern in patterns:
        name, _, member = pattern.partition("!")
        for path in _matching(root, name):
            shown = "/" + str(path.relative_to(root)) + (f"!{member}" if member else "")
            try:
                texts[shown] = _text(root, path, member)
            except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
                notes.append(f"{shown}: not read: {_reason(error)}")
    return texts, notes


def _matching(root: Path, name: str) -> Iterator[Path]:
    found = sorted(root.glob(name)) if "*" in name else [root / name]
    return (path for path in found[:_MOST_FILES] if os.path.lexists(path))


def _text(root: Path, path: Path, member: str) -> str:
    _check_owners(root, path)
    real = path.resolve(strict=True)
    _check_owners(root, real)
    descriptor = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("not a plain file")
        if member:
            with zipfile.ZipFile(file) as archive, archive.open(member) as inside:
                return _decoded(inside.read(MOST_BYTES + 1))
        return _decoded(file.read(MOST_BYTES + 1))


def _check_owners(root: Path, path: Path) -> None:
    """Every part of the path, symbolic links too, is root's, and nobody else can change it."""
    if not path.is_relative_to(root):
        raise ValueError("a link leads out of the root")
    parts = [path, *path.parents]
    for name in parts[: len(parts) - len(root.parts)]:
        found = name.lstat()
        if found.st_uid != 0:
            raise ValueError(f"{name} is not root's")
        if not stat.S_ISLNK(found.st_mode) and found.st_mode & _OTHERS_WRITE:
            raise ValueError(f"others can write to {name}")


def _decoded(data: bytes) -> str:
    if len(data) > MOST_BYTES:
        raise ValueError("longer than 1 MiB")
    return data.decode("utf-8")


def _reason(error: Exception) -> str:
    match error:
        case UnicodeDecodeError():
            return "not UTF-8"
        case OSError():
            return error.strerror or "cannot be read"
        case ValueError():
            return str(error)
        case _:
            return "not the archive it should be"

"""Configuration files, read and written: a write is complete or changes nothing."""

from __future__ import annotations

import os
import re
import secrets
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from hostctl.failure import Failure
from netpolicy.format.toml_text import assignments, value_text

_KEY_LINE = re.compile(r'(\s*key\s*=\s*)("[^"]*"|\[[^\]]*\])(.*)')

Value = str | int | bool | list[str]


def toml(tables: Mapping[str, Mapping[str, Value]]) -> str:
    """TOML text of plain tables; the table named "" is the top level."""
    parts = []
    for name, values in tables.items():
        head = [f"[{name}]"] if name else []
        _check_printable(values.values())
        parts.append("\n".join([*head, *assignments(values)]) + "\n")
    return "".join(parts)


def _check_printable(values: Iterable[Value]) -> None:
    texts = (text for value in values for text in (value if isinstance(value, list) else [value]))
    if not all(text.isprintable() for text in texts if isinstance(text, str)):
        raise Failure("C105", "a value has control characters in it", fix="remove them")


def read_document(path: Path) -> dict[str, object]:
    """A TOML file of the daemons; one that does not exist is an empty document."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except PermissionError:
        raise Failure("C102", f"{path} can be read by root only", fix="use sudo") from None
    except (OSError, ValueError) as error:
        raise Failure("B104", f"{path} cannot be read", str(error), "correct the file") from None


def create_file(path: Path, text: str, mode: int, gid: int = 0) -> bool:
    """Writes a new file in one step; False, and nothing changed, when there is one already."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    temporary = f".{path.name}.{secrets.token_hex(8)}"
    try:
        _write(folder, temporary, text.encode(), mode, gid)
        os.link(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        return False
    finally:
        _unlink(folder, temporary)
        os.close(folder)
    return True


def replace_secret(path: str, data: bytes) -> None:
    try:
        replace_file(Path(path), data, 0o640)
    except FileNotFoundError:
        raise Failure("U105", f"{path} does not exist", fix="put the secret there first") from None


def replace_file(path: Path, data: bytes, mask: int = 0o755) -> bool:
    """Replaces a file in one step; its owner and mode stay."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    temporary = f".{path.name}.{secrets.token_hex(8)}"
    try:
        old = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
        _write(folder, temporary, data, old.st_mode & mask, old.st_gid, old.st_uid)
        os.rename(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        _unlink(folder, temporary)
        os.close(folder)
    return True


def set_key(path: Path, table: str, keys: Sequence[str]) -> None:
    """Replaces `key` of [table] by one text or a list; the rest of the file stays."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    _check_printable(keys)
    value = value_text(keys[0] if len(keys) == 1 else list(keys))
    inside = False
    for number, line in enumerate(lines):
        if line.lstrip().startswith("["):
            inside = line.split("#")[0].strip() == f"[{table}]"
        elif inside and (found := _KEY_LINE.fullmatch(line.rstrip("\n"))):
            lines[number] = f"{found[1]}{value}{found[3]}\n"
            replace_file(path, "".join(lines).encode())
            return
    what = f"{path} has no line `key = ...` below [{table}]"
    raise Failure("B104", what, fix="write it on a line of its own")


def _write(folder: int, name: str, data: bytes, mode: int, gid: int, uid: int = -1) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o600, dir_fd=folder), "wb") as file:
        os.fchown(file.fileno(), uid, gid)
        os.fchmod(file.fileno(), mode)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _unlink(folder: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass
    os.fsync(folder)

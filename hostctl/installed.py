"""Is what is installed what was built? Compares files with the hashes in a wheel's RECORD."""

from __future__ import annotations

import base64
import csv
import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

DISTRIBUTION = "gitmoat"


class Difference(NamedTuple):
    path: str
    what: str  # "missing", "changed" or "not part of it"


def differences(
    record: str, read: Callable[[str], bytes | None], present: Iterable[str] = ()
) -> list[Difference]:
    """What differs from `record`; `present` are files that should all be in it.

    `read` gives the content of a recorded path, or None where there is no such file. Lines
    without a hash (RECORD itself, compiled files) say nothing and are passed over.
    """
    recorded = {row[0]: row[1] for row in csv.reader(record.splitlines()) if len(row) == 3}
    found = list(_compared(recorded, read))
    found += [Difference(path, "not part of it") for path in present if path not in recorded]
    return sorted(found)


def _compared(
    recorded: dict[str, str], read: Callable[[str], bytes | None]
) -> Iterator[Difference]:
    for path, expected in recorded.items():
        name, _, digest = expected.partition("=")
        if not digest:
            continue
        content = read(path)
        if content is None:
            yield Difference(path, "missing")
        elif name != "sha256" or _digest(content) != digest:
            yield Difference(path, "changed")


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def installed_differences() -> list[Difference] | None:
    """The same for the running installation; None when it runs from a checkout."""
    from importlib.metadata import PackageNotFoundError, distribution
    from pathlib import Path

    try:
        found = distribution(DISTRIBUTION)
    except PackageNotFoundError:
        return None
    record, origin = found.read_text("RECORD"), found.read_text("direct_url.json") or ""
    if record is None or '"editable": true' in origin:
        return None
    base = Path(str(found.locate_file("")))

    def read(path: str) -> bytes | None:
        try:
            return (base / path).read_bytes()
        except FileNotFoundError:
            return None

    packages = {line.partition("/")[0] for line in record.splitlines() if ".py," in line}
    present = [str(path.relative_to(base)) for name in packages for path in _code(base / name)]
    return differences(record, read, present)


def _code(package: Path) -> Iterator[Path]:
    return package.rglob("*.py") if package.is_dir() else iter(())

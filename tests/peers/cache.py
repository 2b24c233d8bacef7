"""What tests with foreign peers fetch and build, kept below $XDG_CACHE_HOME/gitmoat-peers.

checksums.txt has the SHA-256 of every file that is fetched. What is built cannot be in it: a build
is kept with its own sum beside it, under a name that changes with all that it was made of.
"""

from __future__ import annotations

import hashlib
import os
import platform
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

CHECKSUMS = Path(__file__).with_name("checksums.txt")


class PeerMissing(AssertionError):
    """A peer cannot be had, or is not the one that was pinned. Nothing is skipped for that."""


def checksums() -> dict[str, str]:
    """File name → SHA-256, of what may be fetched."""
    lines = [line for line in CHECKSUMS.read_text().splitlines() if not line.startswith("#")]
    return {name: digest for digest, name in (line.split("  ") for line in lines)}


def cache() -> Path:
    """Ours alone: programs that are kept here are run."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    place = Path(base, "gitmoat-peers")
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    about = place.lstat()
    if about.st_uid != os.getuid() or about.st_mode & 0o022 or place.is_symlink():
        raise PeerMissing(f"{place} must be a directory that only its owner can write to")
    return place


def fetched(
    name: str,
    fetch: Callable[[Path], None],
    place: Path | None = None,
    known: Mapping[str, str] | None = None,
) -> Path:
    """`fetch` puts the file into the directory that it is given."""
    pinned = (checksums() if known is None else known).get(name)
    if pinned is None:
        raise PeerMissing(f"{name} is not in {CHECKSUMS.name}")
    return _kept((place or cache()) / name, fetch, lambda file: _must_be(file, pinned))


def built(
    name: str, made_of: str, build: Callable[[Path], None], place: Path | None = None
) -> Path:
    """`build` writes NAME into the directory that it is given; `made_of` is all it depends on."""
    system = platform.freedesktop_os_release()
    made_of += f"\n{system['ID']} {system.get('VERSION_ID')} {platform.machine()}"
    folder = (place or cache()) / f"built-{hashlib.sha256(made_of.encode()).hexdigest()[:16]}"
    folder.mkdir(mode=0o700, exist_ok=True)
    file = folder / name
    beside = file.with_name(f"{name}.sha256")

    def check(candidate: Path) -> None:
        if candidate == file:
            _must_be(file, beside.read_text().strip() if beside.exists() else "")
        else:
            beside.write_text(_sum(candidate) + "\n")

    return _kept(file, build, check)


def _kept(file: Path, make: Callable[[Path], None], check: Callable[[Path], None]) -> Path:
    """A file that is there is checked each time, and comes into being whole."""
    if not file.exists():
        with tempfile.TemporaryDirectory(dir=file.parent, prefix=".new-") as directory:
            make(Path(directory))
            new = Path(directory, file.name)
            if not new.exists():
                raise PeerMissing(f"{file.name} was not to be had")
            check(new)
            new.rename(file)
    check(file)
    return file


def _must_be(file: Path, digest: str) -> None:
    found = _sum(file)
    if found != digest:
        raise PeerMissing(f"{file} has the checksum {found}, not {digest}: take it away")


def _sum(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()

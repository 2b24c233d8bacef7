"""Directories of the host that no sandbox gets, whatever its owner asks for.

They are compared by name and by identity (device and inode): a bind mount of a forbidden directory
is forbidden as well. Nothing below a directory is opened; only whether it has an entry of a certain
name is looked up.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from gitmoat.confine.opened import Identity, lineage
from gitmoat.paths import Paths

# These are forbidden, and what lies in them, and what they lie in.
_SYSTEM = (
    "/proc", "/sys", "/dev", "/etc", "/boot", "/run", "/var/run", "/var/lib/docker",
    "/var/lib/containerd", "/var/lib/containers", "/var/lib/kubelet",
)  # fmt: skip
# These are forbidden, and what they lie in; a project may lie below them.
_TOP = ("/", "/home", "/root")
# A directory of this name is forbidden, and what lies in it.
_CREDENTIAL_PLACES = (
    (".ssh",), (".gnupg",), (".aws",), (".azure",), (".kube",), (".docker",), (".password-store",),
    (".config", "gh"), (".config", "gcloud"), (".config", "git"),
)  # fmt: skip
# A directory with one of these entries is a user's home directory, not a work directory.
_CREDENTIALS = (
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".password-store", ".git-credentials", ".netrc",
    ".docker/config.json", ".config/gh", ".config/gcloud", ".config/git/credentials",
)  # fmt: skip


def why_not(path: str, descriptor: int, own: Paths) -> str | None:
    """Why this directory may not be a work directory, or None."""
    place = PurePosixPath(path)
    above = lineage(descriptor)
    for forbidden in map(PurePosixPath, (*_TOP, *_SYSTEM, *_own_places(own))):
        if place == forbidden or above[0] in _identities([forbidden]):
            return f"{forbidden} is never a work directory"
        if forbidden.is_relative_to(place) or above[0] in _identities(forbidden.parents):
            return f"{forbidden} lies in it"
    for forbidden in map(PurePosixPath, (*_SYSTEM, *_own_places(own))):
        if place.is_relative_to(forbidden) or _identities([forbidden]) & set(above):
            return f"it lies in {forbidden}"
    return _why_credentials(place, descriptor)


def forbidden_places(own: Paths) -> list[tuple[str, bool]]:
    """Path, and whether all that lies in it is forbidden too."""
    return [(path, False) for path in _TOP] + [
        (path, True) for path in (*_SYSTEM, *_own_places(own))
    ]


def why_credentials(path: str, descriptor: int) -> str | None:
    """Why a directory or file may not be mounted, because of credentials; or None."""
    return _why_credentials(PurePosixPath(path), descriptor)


def _own_places(own: Paths) -> tuple[str, ...]:
    """The directories of this instance, and of the instance at `/`."""
    found = [place for paths in (own, Paths("/")) for place in _places_of(paths)]
    return tuple(dict.fromkeys(map(str, found)))


def _places_of(paths: Paths) -> tuple[Path, ...]:
    return paths.etc, paths.run, paths.state, paths.log_dir


def _identities(paths: Iterable[PurePosixPath]) -> set[Identity]:
    found = set()
    for path in paths:
        try:
            there = Path(path).stat()
        except OSError:
            continue
        found.add((there.st_dev, there.st_ino))
    return found


def _why_credentials(place: PurePosixPath, descriptor: int) -> str | None:
    if place.name in _CREDENTIALS:
        return f"{place.name} holds credentials"
    for names in _CREDENTIAL_PLACES:
        if _contains(place.parts, names):
            return f"{'/'.join(names)} holds credentials"
    for name in _CREDENTIALS:
        try:
            os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        except OSError:
            continue
        return f"it has credentials in it: {name}"
    return None


def _contains(parts: tuple[str, ...], names: tuple[str, ...]) -> bool:
    starts = range(len(parts) - len(names) + 1)
    return any(parts[start : start + len(names)] == names for start in starts)

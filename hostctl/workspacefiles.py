"""What a workspace says of package registries: only ever a suggestion to its owner."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from hostctl.failure import usage
from hostctl.rootfiles import MOST_BYTES
from netpolicy.presets.places import Answer
from netpolicy.presets.table import PRESETS

# Fixed names: nothing in a workspace decides what is opened.
_FILES = {
    "pip": ("pip.conf", ".pip/pip.conf"),
    "npm": (".npmrc",),
    "cargo": (".cargo/config", ".cargo/config.toml"),
    "maven": (".mvn/settings.xml", "settings.xml"),
    "gem": (".gemrc",),
}


def suggestions(directory: Path, names: Iterable[str]) -> dict[str, Answer]:
    if not directory.is_dir():
        raise usage(f"{directory} is not a directory", "name the directory of a workspace")
    return {name: PRESETS[name].read(_texts(directory, name)) for name in names}


def _texts(directory: Path, name: str) -> dict[str, str]:
    found = {}
    for file in _FILES.get(name, ()):
        text = text_below(directory, file)
        if text is not None:
            found[str(directory / file)] = text
    return found


def text_below(directory: Path, name: str) -> str | None:
    """None for what is not there, not plain, not text, or too long; no link is followed."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    *folders, last = name.split("/")
    try:
        here = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        for folder in folders:
            below = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = below
        with os.fdopen(os.open(last, flags, dir_fd=here), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            data = file.read(MOST_BYTES + 1)
        return data.decode("utf-8") if len(data) <= MOST_BYTES else None
    except (OSError, UnicodeDecodeError):
        return None
    finally:
        os.close(here)

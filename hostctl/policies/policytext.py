"""A policy file as it is written, not parsed: what `run --policy` sends to hostd.

The code that parses policies takes long to load, and hostd has loaded it.
"""

from __future__ import annotations

from pathlib import Path

from gitmoat.paths import Paths
from hostctl.failure import Failure

_SHORT = 128 * 1024  # characters: however they are written, hostd's longest line has room for them
NAMES = "give a path to a .toml file, or the name of one in etc/gitmoat/policies"


def policy_path(paths: Paths, name: str) -> Path:
    """`agents` is an installed policy; anything with a slash or `.toml` is a file."""
    if "/" in name or name.endswith(".toml"):
        return Path(name)
    return paths.policies / f"{name}.toml"


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise Failure("P102", f"the policy {path} cannot be read", why or "", NAMES) from None


def policy_as_written(paths: Paths, name: str) -> str | dict[str, object]:
    """The file's text, because hostd reads no file of the user's; a mapping where presets had to be
    resolved first.

    The file is read once: hostd judges the bytes that were judged here, and a pipe has them once.
    """
    path = policy_path(paths, name)
    text = read_text(path)
    if _needs_no_resolving(text):
        return text
    from hostctl.policies.policyfile import policy_mapping

    return policy_mapping(paths, path, text)


def _needs_no_resolving(text: str) -> bool:
    """Nothing in it can be a preset, also none whose key is spelled with escapes; and it is short
    enough for one request, comments included."""
    return "preset" not in text and "\\" not in text and len(text) <= _SHORT

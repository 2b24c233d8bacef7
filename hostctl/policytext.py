"""A policy file as it is written, not yet understood: what `run --policy` sends to hostd.

What a policy means is a lot of code to load, and hostd has it loaded.
"""

from __future__ import annotations

from pathlib import Path

from hostctl.failure import Failure
from identity.paths import Paths

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
    """The file's text: hostd reads no file of the user's. Presets are resolved here, first.

    It is read once: what is judged here and there is the same, and a pipe has it only once.
    """
    path = policy_path(paths, name)
    text = read_text(path)
    if _goes_as_it_is(text):
        return text
    from hostctl.policyfile import policy_mapping

    return policy_mapping(paths, path, text)


def _goes_as_it_is(text: str) -> bool:
    """It has no preset, whose key may be spelled with escapes; and its comments fit in, too."""
    return "preset" not in text and "\\" not in text and len(text) <= _SHORT

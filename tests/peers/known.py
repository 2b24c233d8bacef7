"""What a foreign peer does without us and not through us, and why: known.toml, by operation.

A difference that is not in the file fails, and so does one in the file that is not there any more.
git's own suite has a table of its own, of the same kind.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

FILE = Path(__file__).with_name("known.toml")
# There are no other reasons.
REASONS = {
    "git-config": "only GIT_CONFIG_SYSTEM says where to go instead, which this client drops or "
    "does not read (to be fixed)",
}


def read(text: str) -> dict[str, dict[str, str]]:
    """Peer → operation → reason."""
    found: dict[str, dict[str, str]] = tomllib.loads(text)
    for peer, operations in found.items():
        for operation, reason in operations.items():
            if reason not in REASONS:
                raise ValueError(f"{peer}, {operation}: {reason!r} is not one of the reasons")
    return found


def check(peer: str, operation: str, worked: bool, said: str) -> None:
    """`worked` through us; without us it did."""
    reason = read(FILE.read_text(encoding="utf-8"))[peer].get(operation)
    if worked and reason:
        raise AssertionError(f"{peer}, {operation}: works now, and is listed as {reason}")
    if not worked and not reason:
        raise AssertionError(f"{peer}, {operation}: does not work, and is not listed: {said}")

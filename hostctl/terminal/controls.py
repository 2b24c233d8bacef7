"""Text of a sandbox on the reader's terminal."""

from __future__ import annotations


def shown_plainly(text: str) -> str:
    """Without control characters, by which a hostile command could move the reader's cursor."""
    return "".join(c if c.isprintable() or c in "\t\n" else "?" for c in text)

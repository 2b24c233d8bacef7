"""Pattern matching as the documentation states it, by trying everything: slow and obvious."""

from collections.abc import Sequence


def slow_run(glob: str, text: str) -> bool:
    if not glob:
        return not text
    if glob[0] == "*":
        return any(slow_run(glob[1:], text[taken:]) for taken in range(len(text) + 1))
    return bool(text) and text[0] == glob[0] and slow_run(glob[1:], text[1:])


def slow_match(pattern: Sequence[str], subject: Sequence[str]) -> bool:
    if not pattern:
        return not subject
    if pattern[0] == "**":
        lengths = range(1, len(subject) + 1)
        return any(slow_match(pattern[1:], subject[taken:]) for taken in lengths)
    if not subject or not slow_run(pattern[0], subject[0]):
        return False
    return slow_match(pattern[1:], subject[1:])

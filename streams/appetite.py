"""How much one turn reads of one peer: less, when what it sent takes long to digest.

A peer chooses how finely it slices what it sends: half a mebibyte can be one piece of a pack or a
hundred thousand pkt-lines, chunks or records. Whoever else is served waits for the turn's end.
"""

from typing import Final

# What one turn moves at most. Large enough that Python is asked rarely, small enough that others
# wait a millisecond.
READ: Final = 512 * 1024
FIRST: Final = 64 * 1024
LEAST: Final = 16 * 1024
# Seconds of this thread's own time, which no other process can lengthen. An ordinary turn takes
# one or two thousandths.
SLOW: Final = 0.01


class Appetite:
    """Of one connection. Begins small, doubles while turns are short, falls when one is long."""

    def __init__(self) -> None:
        self.size = FIRST

    def took(self, count: int, seconds: float) -> None:
        """So many bytes were read and used in so many seconds."""
        if seconds > SLOW:
            self.size = max(LEAST, self.size // 4)
        elif count == self.size and seconds < SLOW / 4:
            self.size = min(READ, self.size * 2)

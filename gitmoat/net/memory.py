"""What a long transfer took is given back to the system when it is over."""

import ctypes
from typing import Final

from gitmoat.net.timing import Clock
from gitmoat.net.transport import openssl

LARGE: Final = 1024 * 1024

_libc: Final = ctypes.CDLL(None)


def give_back_after(clock: Clock, moved: int) -> None:
    """In the next turn, when no connection has anything in the buffers that all share."""
    if moved >= LARGE:
        clock.callLater(0, give_back)


def give_back() -> None:
    """The buffers' pages, with what was in them (madvise(2), MADV_DONTNEED), and all that the
    allocator keeps for later (malloc_trim(3))."""
    openssl.wipe()
    _libc.malloc_trim(0)

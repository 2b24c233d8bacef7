"""Where in memory lies what a sidecar runs, so that a forked one writes to few pages.

A page that a forked process writes to is its own from then on, and running a function writes to
it: to its count of references, in this version of Python. What runs is a tenth of what was
imported, spread over nearly all of its pages. Here it is given places next to each other.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable
from types import CodeType, FrameType, FunctionType
from typing import Any, Final

_SMALL: Final = range(48, 513, 16)  # what Python's own allocator serves
_LARGER: Final = range(4096, 16, -32)  # what malloc does
_BYTES: Final = sys.getsizeof(b"")
_CHUNK: Final = 8  # what malloc adds to each block
_NEIGHBOURS: Final = 4
_ENOUGH: Final = 4096

_libc = ctypes.CDLL(None)
_libc.malloc.restype = ctypes.c_size_t
_libc.malloc.argtypes = (ctypes.c_size_t,)

# Old code and fillers: what is freed leaves a hole, in which a child would put something new.
_kept: list[object] = []


def gather(rehearse: Callable[[], None]) -> None:
    """Runs `rehearse` twice: to see what runs, and to let it settle in its new place."""
    ran = _code_that_runs(rehearse)
    gc.collect()
    fill_holes()
    for function in gc.get_objects():
        if type(function) is FunctionType and id(function.__code__) in ran:
            function.__code__ = _copied(function.__code__, ran)
    _kept.append(ran)
    rehearse()
    gc.collect()
    fill_holes()


def _code_that_runs(rehearse: Callable[[], None]) -> dict[int, CodeType]:
    """By identity: equal code of two functions is in two places."""
    ran: dict[int, CodeType] = {}

    def note(frame: FrameType, event: str, argument: Any) -> None:
        ran[id(frame.f_code)] = frame.f_code

    sys.setprofile(note)
    try:
        rehearse()
    finally:
        sys.setprofile(None)
    return ran


def _copied(code: CodeType, ran: dict[int, CodeType]) -> CodeType:
    inner = tuple(_copied(each, ran) if id(each) in ran else each for each in code.co_consts)
    return code.replace(co_consts=inner)


def fill_holes() -> None:
    """Take what is free between what is used, until both allocators hand out neighbours."""
    for size in _SMALL:
        _fill(_small, size)
    for size in _LARGER:
        _fill(_larger, size)


def _fill(take: Callable[[int], int], size: int) -> None:
    last = neighbours = 0
    for _ in range(_ENOUGH):
        place = take(size)
        neighbours = neighbours + 1 if place - last == size else 0
        if neighbours == _NEIGHBOURS:
            return
        last = place


def _small(size: int) -> int:
    filler = bytes(size - _BYTES)
    _kept.append(filler)
    return id(filler)


def _larger(size: int) -> int:
    place: int = _libc.malloc(size - _CHUNK)
    return place

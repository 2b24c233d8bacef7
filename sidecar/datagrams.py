"""Many datagrams with one system call each way: recvmmsg(2) and sendmmsg(2), which Python lacks.

Every datagram has a slot of its own and is answered in it: its first two octets, the id of a DNS
message, need not be touched at all.
"""

from __future__ import annotations

import ctypes
import socket
from collections.abc import Mapping
from typing import Final

MOST: Final = 64
LARGEST: Final = 513  # one octet more than a question may have, so that too long is seen
ID: Final = 2
_SLOT: Final = 576
_NAME: Final = 28  # of a sockaddr_in6
_DONT_WAIT: Final = socket.MSG_DONTWAIT


class _Vector(ctypes.Structure):
    """struct iovec"""

    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


class _Head(ctypes.Structure):
    """struct msghdr"""

    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_size", ctypes.c_uint32),
        ("vectors", ctypes.c_void_p),
        ("vector_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_size", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class _Message(ctypes.Structure):
    """struct mmsghdr: `size` is how much was received."""

    _fields_ = (("head", _Head), ("size", ctypes.c_uint))


_libc = ctypes.CDLL(None)
_receive = _libc.recvmmsg
_receive.argtypes = (
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_uint,
    ctypes.c_int,
    ctypes.c_void_p,
)
_send = _libc.sendmmsg
_send.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int)
_MESSAGE: Final = ctypes.sizeof(_Message)
_WORDS: Final = _MESSAGE // 4
_SIZE: Final = _Message.size.offset // 4


class Datagrams:
    """Those of one turn. `receive`, `answer_known`; `answer` or `leave` each other one; `send`."""

    def __init__(self) -> None:
        octets = ctypes.create_string_buffer(MOST * _SLOT)
        names = ctypes.create_string_buffer(MOST * _NAME)
        vectors, messages = (_Vector * MOST)(), (_Message * MOST)()
        for number in range(MOST):
            vectors[number] = _Vector(ctypes.addressof(octets) + number * _SLOT, LARGEST)
            messages[number].head = _Head(
                name=ctypes.addressof(names) + number * _NAME,
                name_size=_NAME,
                vectors=ctypes.addressof(vectors) + number * ctypes.sizeof(_Vector),
                vector_count=1,
            )
        self._kept = octets, names, vectors, messages
        self._octets = memoryview(octets).cast("B")
        self._sizes = memoryview(messages).cast("B").cast("I")
        self._answers = memoryview(vectors).cast("B").cast("Q")
        # What a turn changes is put back by copying it whole.
        self._changed = [memoryview(each).cast("B") for each in (messages, vectors)]
        self._fresh = [bytes(each) for each in self._changed]
        self._at = ctypes.addressof(messages)
        self._left: list[int] = []

    def receive(self, descriptor: int) -> int:
        """How many have come; 0 also where one could not be taken."""
        for view, fresh in zip(self._changed, self._fresh, strict=True):
            view[:] = fresh
        self._left.clear()
        count: int = _receive(descriptor, self._at, MOST, _DONT_WAIT, None)
        return max(0, count)

    def answer_known(self, count: int, known: Mapping[bytes, bytes]) -> list[int]:
        """Answer, of the first `count`, those that are in `known` without their ids; the numbers
        of the others. All in one place, since it is done for every datagram of a flood."""
        octets, sizes, answers, look = self._octets, self._sizes, self._answers, known.get
        others = []
        start, size = ID, _SIZE
        for number in range(count):
            found = look(bytes(octets[start : start - ID + sizes[size]]))
            if found is None:
                others.append(number)
            else:
                octets[start : start + len(found)] = found
                answers[2 * number + 1] = ID + len(found)
            start += _SLOT
            size += _WORDS
        return others

    def taken(self, number: int) -> bytes:
        start = number * _SLOT
        return bytes(self._octets[start : start + self._sizes[number * _WORDS + _SIZE]])

    def answer(self, number: int, octets: bytes) -> None:
        """With the id it came with, and these behind it."""
        start = number * _SLOT + ID
        self._octets[start : start + len(octets)] = octets
        self._answers[2 * number + 1] = ID + len(octets)

    def leave(self, number: int) -> None:
        """This one gets no answer. In rising order."""
        self._left.append(number)

    def send(self, descriptor: int, count: int) -> None:
        """To everybody but those left; who cannot be answered is skipped."""
        start = 0
        for end in (*self._left, count):
            while start < end:
                at = self._at + start * _MESSAGE
                start += max(1, _send(descriptor, at, end - start, _DONT_WAIT))
            start = end + 1

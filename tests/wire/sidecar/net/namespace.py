"""A network namespace in which every synthetic address is local, as in a sandbox.

A socket stays in the namespace of the thread that made it, so one thread has the namespace and
makes the sockets, and the test uses them where it is.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from netpolicy.nftables import SYNTHETIC

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def _enter() -> None:
    if _libc.unshare(_CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare: a network namespace needs root")
    for words in ("link set lo up", f"route add local {SYNTHETIC} dev lo"):
        subprocess.run(["ip", *words.split()], check=True, env={"PATH": os.environ["PATH"]})


class Namespace:
    def __init__(self, thread: ThreadPoolExecutor) -> None:
        self._thread = thread

    def listen(self) -> socket.socket:
        return self._thread.submit(socket.create_server, ("0.0.0.0", 0)).result()

    def connect(self, address: str, port: int) -> socket.socket:
        return self._thread.submit(socket.create_connection, (address, port)).result()


@contextmanager
def namespace() -> Iterator[Namespace]:
    with ThreadPoolExecutor(1, initializer=_enter) as thread:
        yield Namespace(thread)

"""A line on the terminal that says what a command waits for and how long, after two seconds."""

from __future__ import annotations

import os
import sys
import time
from threading import Event, Thread

LONG = 2.0
_CLEAR = "\r\x1b[K"
_WIDTH = 70


class Waiting:
    """One line that counts the seconds and is erased afterwards.

    Where a line cannot be erased (no terminal, NO_COLOR, a dumb one, -q) there is none.
    """

    quiet = False
    clear = ""  # what has to come before anything else on the terminal, while the line is there

    def __init__(self, what: str) -> None:
        self._what = what[:_WIDTH]
        self._over: Event | None = None
        self._thread: Thread | None = None

    def __enter__(self) -> Waiting:
        if not self.quiet and _can_erase():
            self._over = Event()
            self._thread = Thread(target=self._tell, args=(self._over,), daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._over is not None and self._thread is not None:
            self._over.set()
            self._thread.join()

    def _tell(self, over: Event) -> None:
        begun = time.monotonic()
        if over.wait(LONG):
            return
        Waiting.clear = _CLEAR
        while True:
            seconds = int(time.monotonic() - begun)
            print(f"{_CLEAR}{self._what} ({seconds} s)", end="", file=sys.stderr, flush=True)
            if over.wait(1.0):
                break
        Waiting.clear = ""
        print(_CLEAR, end="", file=sys.stderr, flush=True)


def _can_erase() -> bool:
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stderr.isatty() and not plain

"""Single keys of the terminal, while something is shown on it."""

from __future__ import annotations

import os
import select
import termios
import time
from typing import Self


class Keys:
    """While it is open a key is read at once and not shown; Ctrl-C stays what it is. Without a
    terminal no key is ever pressed."""

    def __init__(self, wanted: bool, terminal: int = 0) -> None:
        self._terminal = terminal
        self._before = termios.tcgetattr(terminal) if wanted else None

    def __enter__(self) -> Self:
        if self._before is not None:
            local = self._before[3] & ~(termios.ICANON | termios.ECHO)
            self._set([*self._before[:3], local, *self._before[4:]])
        return self

    def __exit__(self, *exc: object) -> None:
        if self._before is not None:
            self._set(self._before)

    def pressed(self, key: bytes, seconds: float) -> bool:
        """Waits so long for this key, and drops any other. A terminal that hung up is its end."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self._before is None:
                time.sleep(left)
            elif select.select([self._terminal], [], [], left)[0]:
                typed = self._typed()
                if key in typed or not typed:
                    return True
        return False

    def _typed(self) -> bytes:
        try:
            return os.read(self._terminal, 64)
        except OSError:  # it hung up
            return b""

    def _set(self, attributes: list[int | list[bytes | int]]) -> None:
        termios.tcsetattr(self._terminal, termios.TCSADRAIN, attributes)

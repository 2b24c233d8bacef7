"""Disk space kept for what must be recorded even when a disk is full."""

from __future__ import annotations

import os

from attrs import define, field

SIZE = 1 << 20


@define(eq=False)
class Reserve:
    """A file that is only there to be given up. `size` 0 keeps nothing."""

    _fd: int
    size: int = SIZE
    _held: bool = field(init=False, default=False)

    def hold(self) -> bool:
        """Whether the space is kept, taking it now if it can be had."""
        if not self._held:
            try:
                if self.size:
                    os.posix_fallocate(self._fd, 0, self.size)
                self._held = True
            except OSError:
                self._shrink()
        return self._held

    def give_up(self) -> bool:
        """Frees the space; False when there was none to free."""
        freed, self._held = self._held and self.size > 0, False
        self._shrink()
        return freed

    def close(self) -> None:
        os.close(self._fd)

    def _shrink(self) -> None:
        try:
            os.ftruncate(self._fd, 0)
        except OSError:
            pass  # the next attempt to write says what is wrong with this disk

"""This machine's boot: its name, and the time since, which nobody can set."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

# Seconds, sleep included; the same for every process until the next boot.
boot_seconds: Callable[[], float] = partial(time.clock_gettime, time.CLOCK_BOOTTIME)


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()

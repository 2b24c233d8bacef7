"""Time that nobody can set."""

from __future__ import annotations

import time
from pathlib import Path


def boot_seconds() -> float:
    """Since this machine's boot, sleep included; the same for every process until the next."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()

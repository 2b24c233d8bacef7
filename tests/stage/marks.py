"""What a test needs of the machine."""

from __future__ import annotations

import os
import platform

import pytest

x86_64 = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the imposter's instructions are for x86-64"
)

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can drop to another uid")

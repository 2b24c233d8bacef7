"""The command line as a user types it, on a root that a test made."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
Hostctl = Callable[..., "subprocess.CompletedProcess[str]"]
PIP_CONF = "[global]\nindex-url = https://pip.corp.example/simple\n"


def environment() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PYTHONPATH": str(CHECKOUT)}


def put(path: Path, text: str, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path

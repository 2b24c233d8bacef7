"""How soon the command line is there, against Python doing nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from bench.chains.way import OURS
from bench.figures import Book

PYTHON = "python"


def measure(book: Book, rounds: int) -> None:
    hostctl = str(Path(sys.executable).with_name("hostctl"))
    for _ in range(rounds + 1):
        nothing = seconds([sys.executable, "-c", "pass"])
        for word in ("--help", "--version"):
            ours = seconds([hostctl, word])
            book.add(f"hostctl {word}", OURS, "s", ours)
            book.add(f"hostctl {word}", PYTHON, "s", nothing)


def seconds(command: list[str]) -> float:
    quiet = subprocess.DEVNULL
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdout=quiet, stderr=quiet)
    return time.perf_counter() - begun

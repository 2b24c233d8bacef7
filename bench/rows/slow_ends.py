"""What is kept in memory while the other side does not go on."""

from __future__ import annotations

import subprocess
from pathlib import Path

from bench.chains.way import Way
from bench.processes import forget_peak, resident
from bench.rows.transfers import Values, credentials

_TIMED_OUT = 28  # curl's exit code: here it is how every transfer ends
_KIND = "Content-Type: application/x-git-upload-pack-request"


def slow_reader(way: Way, body: Path, seconds: int) -> Values:
    """A client that takes 1 MB/s of an answer that could come a hundred times faster."""
    words = ("--limit-rate", "1M")
    return {
        "slow reader: memory grown": (_grown(way, "fake/download", body, seconds, words), "MiB")
    }


def stalled(way: Way, body: Path, seconds: int) -> Values:
    """An upstream that stops in the middle of its answer."""
    return {"stalled upstream: memory grown": (_grown(way, "fake/stall", body, seconds), "MiB")}


def _grown(
    way: Way, repository: str, body: Path, seconds: int, words: tuple[str, ...] = ()
) -> float:
    """MiB that all hops together had more at most than before."""
    pids = way.all_pids()
    forget_peak(pids)
    before = resident(pids)
    command = ["curl", "-sS", "-o", "/dev/null", "--max-time", str(seconds), *credentials(way)]
    command += [*words, "--data-binary", f"@{body}", "-H", _KIND]
    command.append(f"{way.url(repository)}/git-upload-pack")
    done = subprocess.run(way.words(*command), capture_output=True, text=True, check=False)
    if done.returncode != _TIMED_OUT:
        raise RuntimeError(f"{way.name}: {done.returncode} {done.stderr}")
    return (resident(pids, "VmHWM") - before) / 1024

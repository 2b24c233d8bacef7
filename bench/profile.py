"""python -m bench.profile: where the processor time of our two hops goes.

Saved as Markdown beside the runs: it answers a goal that is not met. Needs perf, of linux-perf.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from attrs import evolve

from bench import table
from bench.chains.way import OURS, Way
from bench.machine import describe
from bench.rows import requests
from bench.saving import RESULTS
from bench.scale import SMOKE
from bench.stage import Stage, open_stage

_SCALE = evolve(SMOKE, raw=1 << 30, seconds=8)
_SYMBOLS = 15
_EACH = "999"  # samples a second
# By the file that a sample was taken in; cryptography's module has OpenSSL inside.
_KINDS = (
    (re.compile(r"\[kernel"), "kernel"),
    (re.compile(r"_rust\.abi3|libcrypto|libssl|_sodium"), "cryptography"),
    (re.compile(r"libpython|python3"), "Python"),
    (re.compile(r"libc\.so|\[vdso\]"), "libc"),
)
_LINE = re.compile(r"\s*([0-9.]+)%\s+(\S+)\s*(?:\[.\]\s+(\S+))?")


def main() -> int:
    parts = [f"# Where it goes\n\n{_machine()}\n"]
    with open_stage(_SCALE, [], shapes=False, small=False) as stage:
        [way] = [each for each in stage.ways if each.name == OURS]
        parts += [_time(name, way, run) for name, run in _runs(stage, way).items()]
    path = RESULTS / f"{time.strftime('%Y-%m-%d', time.gmtime())}-profile.md"
    path.write_text("\n".join(parts), encoding="utf-8")
    print(f"profile: saved {path.name}")
    return 0


def _runs(stage: Stage, way: Way) -> Mapping[str, Callable[[], object]]:
    return {
        "A download of 1 GiB": lambda: stage.transfers.download(way),
        "An upload of 1 GiB": lambda: stage.transfers.upload(way),
        "Small requests, 200 at a time": lambda: requests.concurrent(way, stage.scale.seconds),
    }


def _machine() -> str:
    return "\n".join(f"- {name}: {value}" for name, value in describe().items())


def _time(name: str, way: Way, run: Callable[[], object]) -> str:
    run()  # warm
    said = [f"## {name}\n"]
    with tempfile.TemporaryDirectory() as folder:
        files = {hop: Path(folder, hop) for hop in way.hops}
        with _recording({pid: files[hop] for hop, pid in way.hops.items()}):
            run()
        said.append("Percent of the processor time of each hop.\n")
        said.append(table.markdown(_shares({hop: _by(file, "dso") for hop, file in files.items()})))
        for hop, file in files.items():
            rows = [[symbol, f"{part:.1f}"] for part, symbol in _symbols(file)]
            said.append(f"\nOf the {hop}'s, what most of it is in:\n")
            said.append(table.markdown([["symbol", "%"], *rows]))
    return "\n".join(said) + "\n"


@contextmanager
def _recording(files: Mapping[int, Path]) -> Iterator[None]:
    """perf looks at each process while the block runs."""
    started = [
        subprocess.Popen(
            ["perf", "record", "-q", "-F", _EACH, "-o", str(file), "-p", str(pid)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for pid, file in files.items()
    ]
    time.sleep(1)
    try:
        yield
    finally:
        for process in started:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def _by(file: Path, keys: str) -> list[tuple[float, str, str]]:
    """Percent, file and symbol of each line of perf's report."""
    command = ["perf", "report", "-i", str(file), "--sort", keys, "--stdio", "-q"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    found = (_LINE.match(line) for line in said.splitlines())
    return [(float(each[1]), each[2], each[3] or "") for each in found if each is not None]


def _shares(reports: Mapping[str, Sequence[tuple[float, str, str]]]) -> list[list[str]]:
    kinds = [*dict.fromkeys(kind for _, kind in _KINDS), "other"]
    lines = [["hop", *kinds]]
    for hop, report in reports.items():
        sums = [sum(part for part, dso, _ in report if _kind(dso) == kind) for kind in kinds]
        lines.append([hop, *(f"{each:.0f}" for each in sums)])
    return lines


def _kind(dso: str) -> str:
    return next((kind for pattern, kind in _KINDS if pattern.search(dso)), "other")


def _symbols(file: Path) -> list[tuple[float, str]]:
    report = _by(file, "dso,symbol")
    return [(part, f"{_kind(dso)}: {symbol}") for part, dso, symbol in report[:_SYMBOLS]]


if __name__ == "__main__":
    sys.exit(main())

"""python -m tests [OPTION...]: every suite in a pytest of its own, two at a time.

Foreign peers are not among them: `make peers` fetches them and runs what they are tested with.
Suites share nothing but the machine: each test that needs a Gitmoat makes one in a root of its own.
What a suite prints comes when it has ended. Options go to each pytest. Tests that need releases of
the repository's history are left out where they are not, with a line that says so.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from attrs import define, field

from tests.releases import missing, shown

HERE = Path(__file__).parent
AT_A_TIME = 2
# The longest first, so that none of them is the last one that runs alone.
_ORDER = (
    *("live", "wire", "docker", "unit", "faults", "adversary", "fidelity", "smuggling", "cli"),
    "upgrade",
)
NOT_HERE = {"peers"}  # needs what this machine has to fetch
_NOTHING_CHOSEN = 5
_COUNTED = re.compile(r"(\d+) (passed|failed|error|skipped|xfailed|xpassed)")


def suites() -> list[str]:
    found = sorted({path.relative_to(HERE).parts[0] for path in HERE.rglob("test_*.py")} - NOT_HERE)
    return sorted(found, key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER))


def counted(output: str) -> Counter[str]:
    """From pytest's last line; a suite without one has said nothing of what it did."""
    last = next((line for line in reversed(output.splitlines()) if line.startswith("=")), "")
    return Counter({word: int(number) for number, word in _COUNTED.findall(last)})


@define(eq=False)
class Runs:
    options: Sequence[str]
    total: Counter[str] = field(factory=Counter)
    failed: list[str] = field(factory=list)
    _running: set[subprocess.Popen[bytes]] = field(factory=set)
    _interrupted: bool = False

    def run(self, suite: str) -> None:
        if self._interrupted:
            return
        print(f"tests: {suite} ...", flush=True)
        # A place of its own: pytest takes away what other runs left in the one that all share.
        place = tempfile.TemporaryDirectory(prefix="gm-tests-", ignore_cleanup_errors=True)
        with place as directory, tempfile.TemporaryFile() as output:
            options = (*self.options, f"--basetemp={directory}/t")
            command = [sys.executable, "-m", "pytest", *options, str(HERE / suite)]
            # In a group of its own: an interrupt of the terminal's would come twice.
            process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, process_group=0
            )
            self._running.add(process)
            code = process.wait()
            self._running.discard(process)
            output.seek(0)
            text = output.read().decode(errors="replace")
        self.total.update(counted(text))
        if code not in (0, _NOTHING_CHOSEN):
            self.failed.append(suite)
        print(f"\ntests/{suite}\n{text}", flush=True)

    def interrupt(self) -> None:
        """Each takes its fixtures down by itself."""
        self._interrupted = True
        for process in list(self._running):
            process.send_signal(signal.SIGINT)


def without_history(options: Sequence[str]) -> list[str]:
    """The same choice of tests, but for those marked `history`."""
    chosen = list(options)
    if "-m" not in chosen:
        return [*chosen, "-m", "not history"]
    at = chosen.index("-m") + 1
    chosen[at] = f"({chosen[at]}) and not history"
    return chosen


def main(options: Sequence[str]) -> int:
    absent = missing()
    if absent:
        print(f"tests: {shown(absent)}: what needs it is left out", flush=True)
    runs = Runs(without_history(options) if absent else options)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with ThreadPoolExecutor(AT_A_TIME) as workers:
        try:
            list(workers.map(runs.run, suites()))
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            runs.interrupt()
            runs.failed.append("interrupted")
    wrong = sum(runs.total[word] for word in ("failed", "error", "xpassed"))
    skipped = runs.total["skipped"] + runs.total["xfailed"]
    if runs.failed:
        print(f"tests: not well: {', '.join(runs.failed)}")
    print(f"{runs.total['passed']} passed, {wrong} failed, {skipped} skipped")
    return 1 if runs.failed or wrong or not runs.total["passed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

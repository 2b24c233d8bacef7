"""What a sandbox notices of another one that does its worst: nothing fails, little takes longer.

A is idle or busy with one thing, and is made anew for each; B is the same one all the time. In
every round each of A's occupations has its turn, and idleness two, so that all are of the same
minutes. Both are on one Gitmoat with the limits that everybody has, whose root is on a small disk
of its own: what fills that one is not the machine's.
"""

from __future__ import annotations

import json
import select
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path

from attrs import frozen

from bench import repositories
from bench.authority import make_authority
from bench.chains import gitmoat
from bench.figures import Book
from bench.neighbours import LOADS, NOTHING, Load
from bench.parts.outcomes import Outcome, Outcomes
from bench.processes import Programs
from bench.suite import took
from bench.upstream import start_upstream
from hostctl.setup.daemons import clean_environment
from tests.stage.command import CommandFailed, command, last_words
from tests.stage.instance import Instance

A, B = "bench-a", "bench-b"
_DISK_MIB = 256
_TIMEOUT = 120.0
# What A may; its limits are those that a policy has by itself, but for the one that would slow down
# whoever is refused often: its refusals are many.
_POLICY = """\
version = 1
name = "neighbour"
[[git]]
id = "fake"
repos = ["bench:fake/*"]
fetch = true
who = ["helper", "untrusted"]
[limits]
free_refusals = 1000000
"""
# Into the sandbox's /tmp, which is memory: a disk that is full is full for B's own files too.
_FETCH = r"""
import subprocess, sys, time
subprocess.run(["git", "init", "-q", "--bare", "/tmp/fetched"], check=True)
git = ["git", "-C", "/tmp/fetched", "-c", "gc.auto=0", "fetch", "-q", "--refetch"]
for line in sys.stdin:
    begun = time.perf_counter()
    done = subprocess.run([*git, sys.argv[1], "main"], capture_output=True, text=True)
    taken = time.perf_counter() - begun
    print(done.returncode, taken, " / ".join(done.stderr.split("\n"))[:500], flush=True)
"""

Operation = Callable[[], Outcome]


def measure(book: Book, rounds: int, times: int) -> None:
    """Each operation so many times in a row, in each of the rounds."""
    outcomes, troubles = Outcomes(), list[str]()
    try:
        with _world() as (instance, place), _fetching(instance, place) as fetch:
            operations: dict[str, Operation] = {
                "exec": partial(_timed, instance, "exec", B, "--", "true"),
                "run": partial(_timed, instance, "run", "--rm", "--policy", "bench", "--", "true"),
                "fetch": fetch,
            }
            for operation in operations.values():
                operation()  # to warm up
            for _ in range(rounds):
                for load in (NOTHING, *LOADS[:4], NOTHING, *LOADS[4:]):
                    troubles += _beside(instance, place, load, operations, times, outcomes)
    finally:
        outcomes.write(book)
    troubles += outcomes.failures()
    if troubles:
        raise RuntimeError("; ".join(troubles))


def _beside(
    instance: Instance,
    place: str,
    load: Load,
    operations: dict[str, Operation],
    times: int,
    outcomes: Outcomes,
) -> list[str]:
    """Everything while A does this; what was wrong with A itself."""
    begun = time.monotonic()
    try:
        with _neighbour(instance, place, load) as goes_on:
            _in_turn(operations, times, load.name, goes_on, outcomes)
    except (CommandFailed, RuntimeError, OSError, subprocess.SubprocessError) as problem:
        return [f"{load.name}: {problem}"]
    finally:
        took(f"neighbours: {load.name}", begun)
    return []


def _in_turn(
    operations: dict[str, Operation],
    times: int,
    beside: str,
    goes_on: Callable[[], None],
    outcomes: Outcomes,
) -> None:
    for _ in range(times):
        for name, operation in operations.items():
            if not outcomes.hopeless(name, beside):
                outcomes.add(name, beside, operation())
                goes_on()


@contextmanager
def _world() -> Iterator[tuple[Instance, str]]:
    """A Gitmoat with B on it, and HOST:PORT of its git server."""
    with tempfile.TemporaryDirectory(prefix="gm-bench-", dir="/tmp") as directory:
        place = Path(directory)
        place.chmod(0o755)
        programs = Programs(place)
        try:
            authority = make_authority(place / "tls")
            upstream = start_upstream(programs, authority, place / "upstream", raw=0)
            repositories.make_small(upstream.repositories)
            with (
                _disk(place) as disk,
                gitmoat.installed(upstream, str(disk), limits="") as instance,
            ):
                (instance.paths.policies / "neighbour.toml").write_text(_POLICY)
                gitmoat.make_box(instance, B)
                yield instance, f"localhost:{upstream.port}"
        finally:
            programs.stop()


@contextmanager
def _disk(directory: Path) -> Iterator[Path]:
    """A file system of a few MiB in a file; a twentieth is root's, as ext4 has it by itself."""
    image, mounted = directory / "disk.img", directory / "disk"
    with image.open("wb") as file:
        file.truncate(_DISK_MIB << 20)
    mounted.mkdir()
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(mounted)], check=True)
    try:
        mounted.chmod(0o755)
        yield mounted
    finally:
        subprocess.run(["umount", str(mounted)], check=True)


@contextmanager
def _neighbour(instance: Instance, place: str, load: Load) -> Iterator[Callable[[], None]]:
    """A, and what fails unless A has done something since the last time."""
    words = ("run", "-d", "--name", A, "--policy", "neighbour", *load.options)
    gitmoat.hostctl(instance, *words, "--", *load.command(place))
    try:
        about = json.loads(gitmoat.hostctl(instance, "--json", "inspect", A))
        path = Path(f"/proc/{about['pid']}/root/workspace/count")
        _wait(lambda: path.exists() and _count(path) > 0, "A has not begun")
        counts = [_count(path)]

        def goes_on() -> None:
            if load is not NOTHING:
                _wait(lambda: _count(path) != counts[-1], "A is not busy")
                counts.append(_count(path))

        with _owner(instance, load) if load.owner else nullcontext():
            goes_on()
            yield goes_on
    finally:
        gitmoat.hostctl(instance, "rm", "--force", A)


def _count(path: Path) -> int:
    return int.from_bytes(path.read_bytes(), "little")


def _wait(true: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + _TIMEOUT
    while not true():
        if time.monotonic() > deadline:
            raise RuntimeError(otherwise)
        time.sleep(0.005)


@contextmanager
def _owner(instance: Instance, load: Load) -> Iterator[None]:
    """A's owner, who always has a command under way in it."""
    over = threading.Event()

    def again_and_again() -> None:
        while not over.is_set():
            process = _begin(instance, "exec", A, "--", *load.owner)
            deadline = time.monotonic() + load.waits
            while process.poll() is None and time.monotonic() < deadline and not over.is_set():
                over.wait(0.01)
            process.kill()
            process.communicate()

    thread = threading.Thread(target=again_and_again)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _begin(instance: Instance, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command(instance.root, *words),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment(),
        start_new_session=True,
    )


def _timed(instance: Instance, *words: str) -> Outcome:
    begun = time.perf_counter()
    process = _begin(instance, *words)
    try:
        _, said = process.communicate(timeout=_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return Outcome(time.perf_counter() - begun, "it takes too long")
    taken = time.perf_counter() - begun
    problem = last_words(said.decode()) if process.returncode else ""
    return Outcome(taken, problem)


@frozen
class _Fetcher:
    """B's own git, asked over and over by a command in B that says how long it took."""

    process: subprocess.Popen[bytes]

    def __call__(self) -> Outcome:
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise RuntimeError("B's command has ended") from None
        if not select.select([self.process.stdout], [], [], _TIMEOUT)[0]:
            raise RuntimeError("B's git does not end")
        code, _, rest = self.process.stdout.readline().decode().partition(" ")
        seconds, _, said = rest.strip().partition(" ")
        if not seconds:
            raise RuntimeError("B's command has ended")
        return Outcome(float(seconds), said if code != "0" else "")


@contextmanager
def _fetching(instance: Instance, place: str) -> Iterator[Operation]:
    url = f"https://{place}/{repositories.SMALL}.git"
    command = ("/usr/bin/python3", "-I", "-c", _FETCH, url)
    process = _begin(instance, "exec", "-i", B, "--", *command)
    try:
        yield _Fetcher(process)
    finally:
        process.kill()
        process.communicate()

"""Starts broker and hostd, detached, and waits until they are ready; stops them."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import hostctl
from gitmoat.paths import Paths
from hostctl.commands.status import daemon_status
from hostctl.control_client import ask
from hostctl.failure import Failure, failure_from, plain

READY_SECONDS = 20.0
STOP_SECONDS = 120.0  # hostd removes its sandboxes first
_READY_LIMIT = 65536
# When memory runs out the kernel kills commands of sandboxes first, daemons last (proc(5)).
_OOM_SCORE = "-900"
_PATH = "/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"


class Daemon:
    """One process that this call started."""

    def __init__(self, name: str, process: subprocess.Popen[bytes]) -> None:
        self.name = name
        self.process = process

    def stop(self) -> None:
        """For a start that is undone: by SIGTERM, then by SIGKILL."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start_daemon(
    name: str,
    paths: Paths,
    environment: Mapping[str, str] | None = None,
    timeout: float = READY_SECONDS,
) -> Daemon:
    """Starts `python -m NAME` and waits for its ready line; nothing is left of it on failure."""
    log = paths.broker_log if name == "broker" else paths.hostd_log
    ready, far = os.pipe()
    try:
        process = _spawn(name, paths, log, far, environment or clean_environment())
        daemon = Daemon(name, process)
    finally:
        os.close(far)
    try:
        _wait_ready(daemon, ready, log, timeout)
    except BaseException:
        daemon.stop()
        raise
    finally:
        os.close(ready)
    return daemon


def code_directory() -> str | None:
    """Where our packages are when they run from a checkout that is not installed."""
    parent = Path(hostctl.__file__).resolve().parent.parent
    return None if parent.name in ("site-packages", "dist-packages") else str(parent)


def clean_environment() -> dict[str, str]:
    environment = {"PATH": _PATH, "LANG": "C.UTF-8"}
    directory = code_directory()
    return {**environment, "PYTHONPATH": directory} if directory else environment


def _spawn(
    name: str, paths: Paths, log: Path, ready: int, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(log, flags, 0o640), "wb") as output:
        process = subprocess.Popen(
            # -P: cwd is no place to import from
            [sys.executable, "-P", "-m", name, "--root", str(paths.root), "--ready-fd", str(ready)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            cwd="/",
            pass_fds=(ready,),
            start_new_session=True,
        )
    with suppress(OSError):  # without CAP_SYS_RESOURCE it keeps the score of any process
        Path(f"/proc/{process.pid}/oom_score_adj").write_text(_OOM_SCORE, encoding="ascii")
    return process


def _wait_ready(daemon: Daemon, ready: int, log: Path, timeout: float) -> None:
    line = _read_line(ready, time.monotonic() + timeout)
    if line == b"ready":
        return
    if line is None:
        what = f"{daemon.name} is not ready after {timeout:.0f} s"
        raise Failure("C106", what, fix=_see(log))
    if line.startswith(b"{"):
        raise _reported(line, log)
    why = _last_line(log) or "it exited and printed nothing"
    raise Failure("C103", f"{daemon.name} did not start", why, _see(log), exit_code=1)


def _reported(line: bytes, log: Path) -> Failure:
    try:
        data = json.loads(line)
    except ValueError:
        data = None
    failure = failure_from(data.get("error") if isinstance(data, dict) else None)
    failure.fix = failure.fix or _see(log)
    return failure


def _read_line(descriptor: int, deadline: float) -> bytes | None:
    """One line, or what came before end-of-file; None when the time is up."""
    data = b""
    while b"\n" not in data and len(data) < _READY_LIMIT:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            return None
        piece = os.read(descriptor, 4096)
        if not piece:
            break
        data += piece
    return data.partition(b"\n")[0]


def _last_line(log: Path) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace")[-4096:].split("\n")
    except OSError:
        return ""
    return next((plain(line)[:300] for line in reversed(lines) if line.strip()), "")


def _see(log: Path) -> str:
    return f"see {log}"


def stop_daemon(name: str, socket: Path) -> bool:
    """Asks a daemon to end and waits until it has; False when none was running."""
    status = daemon_status(socket)
    if status["pid"] is None:
        return False
    with _its_end(name, status["pid"]):
        try:
            ask(socket, {"op": "shutdown"}, timeout=STOP_SECONDS)
        except Failure as failure:
            if failure.code != "C103":
                raise
    return True


def leave_daemon(name: str, socket: Path) -> None:
    """Ends a daemon by a signal, if it runs, and waits until it has ended: hostd leaves its
    sandboxes to the next one."""
    pid = daemon_status(socket)["pid"]
    if pid is None:
        return
    with _its_end(name, pid) as process:
        if process is not None:
            signal.pidfd_send_signal(process, signal.SIGTERM)


def await_end(name: str, pid: object) -> None:
    """For a daemon that is ending already."""
    with _its_end(name, pid):
        pass


@contextmanager
def _its_end(name: str, pid: object) -> Iterator[int | None]:
    """Waits after the block until the process has ended; it may have done so before."""
    try:
        process = os.pidfd_open(pid) if isinstance(pid, int) else None
    except ProcessLookupError:
        process = None
    try:
        with suppress(ProcessLookupError):
            yield process
        if process is not None and not _ended(process):
            what = f"{name} (pid {pid}) does not exit"
            raise Failure("C106", what, fix=f"examine it, then kill {pid}")
    finally:
        if process is not None:
            os.close(process)


def _ended(process: int) -> bool:
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(int(STOP_SECONDS * 1000)))

"""`run` and `exec` carry bytes, signals and exit codes; our own stdio never crosses."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from tests.cli.command import Hostctl, environment
from tests.cli.terminal import Terminal
from tests.fakes.daemon import Call, FakeDaemon, Message, run_locally
from tests.stage.command import command
from tests.waiting import PATIENCE, ends_with_its_test, eventually


@pytest.fixture
def hostd(root: Path) -> Iterator[FakeDaemon]:
    socket = root / "run" / "gitmoat" / "hostd.sock"
    (root / "var" / "lib" / "gitmoat" / "hostd").mkdir(parents=True)
    operations = {"run": run_locally, "exec": run_locally}
    with FakeDaemon(socket, operations) as daemon:
        yield daemon


def test_output_goes_where_it_belongs_and_the_exit_code_comes_back(
    hostd: FakeDaemon, hostctl: Hostctl
) -> None:
    done = hostctl("-q", "run", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 7)


def test_words_of_a_command_that_are_not_utf8_arrive_as_they_are(
    hostd: FakeDaemon, hostctl: Hostctl
) -> None:
    script = 'printf %s "$1" | od -An -tx1'
    done = hostctl("-q", "run", "--", "sh", "-c", script, "sh", "é\udcff\\\udc80")
    assert done.stdout.split() == ["c3", "a9", "ff", "5c", "80"]


def test_a_command_that_a_signal_ended_gives_128_and_its_number(
    hostd: FakeDaemon, hostctl: Hostctl
) -> None:
    assert hostctl("exec", "demo", "--", "sh", "-c", "kill -KILL $$").returncode == 137


def test_progress_is_on_stderr_and_quiet_hides_it(hostd: FakeDaemon, hostctl: Hostctl) -> None:
    assert hostctl("run", "--", "true").stderr == "starting\n"
    assert hostctl("-q", "run", "--", "true").stderr == ""


def test_without_i_the_command_reads_end_of_file(hostd: FakeDaemon, hostctl: Hostctl) -> None:
    assert hostctl("-q", "run", "--", "cat", stdin="typed\n").stdout == ""


def test_with_i_stdin_is_passed_on_to_its_end(hostd: FakeDaemon, hostctl: Hostctl) -> None:
    text = "line\n" * 200_000
    assert hostctl("exec", "-i", "demo", "--", "cat", stdin=text).stdout == text


def test_a_command_that_does_not_read_its_stdin_ends_all_the_same(
    hostd: FakeDaemon, hostctl: Hostctl
) -> None:
    assert hostctl("exec", "-i", "demo", "--", "true", stdin="x" * 1_000_000).returncode == 0


def test_large_output_arrives_whole(hostd: FakeDaemon, hostctl: Hostctl) -> None:
    script = "head -c 10000000 /dev/zero; head -c 3000000 /dev/zero >&2"
    done = hostctl("-q", "run", "--", "sh", "-c", script)
    assert (len(done.stdout), len(done.stderr)) == (10_000_000, 3_000_000)


def test_what_was_written_just_before_the_end_is_not_lost(
    hostd: FakeDaemon, hostctl: Hostctl
) -> None:
    for _ in range(5):
        done = hostctl("exec", "demo", "--", "sh", "-c", "printf %060000d 7")
        assert len(done.stdout) == 60_000


def test_a_background_process_does_not_hold_the_command_up(
    hostd: FakeDaemon, hostctl: Hostctl
) -> None:
    done = hostctl("exec", "demo", "--", "sh", "-c", "sleep 60 & echo $!")
    os.kill(int(done.stdout), signal.SIGKILL)  # or it had ended before the command did


def test_the_command_gets_pipes_of_its_own_never_our_descriptors(
    root: Path, hostctl: Hostctl
) -> None:
    seen: list[os.stat_result] = []

    def look(call: Call) -> list[Message]:
        seen.extend(os.fstat(descriptor) for descriptor in call.descriptors)
        return [{"ok": True, "exit": 0}]

    with FakeDaemon(root / "run" / "gitmoat" / "hostd.sock", {"exec": look}):
        hostctl("exec", "demo", "--", "true")
    assert len(seen) == 3
    assert all(stat.S_ISFIFO(one.st_mode) for one in seen)
    assert len({one.st_ino for one in seen}) == 3


def test_detached_commands_get_a_null_device_that_is_not_the_hosts(
    root: Path, hostctl: Hostctl
) -> None:
    seen: list[os.stat_result] = []

    def look(call: Call) -> list[Message]:
        seen.extend(os.fstat(descriptor) for descriptor in call.descriptors)
        return [{"event": "started", "sandbox": "5ab", "name": "n"}, {"ok": True, "exit": 0}]

    state = root / "var" / "lib" / "gitmoat" / "hostd"
    state.mkdir(parents=True)
    with FakeDaemon(root / "run" / "gitmoat" / "hostd.sock", {"run": look}):
        done = hostctl("run", "-d", "--", "true")
    null = os.stat("/dev/null")
    assert done.stdout == "5ab\n"
    assert all(one.st_rdev == null.st_rdev for one in seen)
    assert all((one.st_dev, one.st_ino) != (null.st_dev, null.st_ino) for one in seen)
    assert list(state.iterdir()) == []


def _popen(root: Path, *words: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        command(root, *words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    return ends_with_its_test(process)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_reach_the_command(hostd: FakeDaemon, root: Path, number: int) -> None:
    script = (
        f"trap 'echo caught; exit 9' {signal.Signals(number).name[3:]}; echo up; sleep 600 & wait"
    )
    process = _popen(root, "exec", "demo", "--", "sh", "-c", script)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    process.send_signal(number)
    out, _ = process.communicate(timeout=PATIENCE)
    assert (out, process.returncode) == (b"caught\n", 9)


def test_an_interrupt_before_the_command_runs_leaves_with_130(root: Path) -> None:
    def slow(call: Call) -> Iterator[Message]:
        yield {"progress": "cloning"}
        call.sock.recv(1)  # until the client leaves

    with FakeDaemon(root / "run" / "gitmoat" / "hostd.sock", {"run": slow}):
        process = _popen(root, "run", "--", "true")
        assert process.stderr is not None
        assert process.stderr.readline() == b"cloning\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    assert (err, process.returncode) == (b"", 130)


def test_a_command_that_ignores_us_is_left_at_the_fourth_interrupt(
    hostd: FakeDaemon, root: Path
) -> None:
    script = "trap '' INT; echo up; sleep 600"
    process = _popen(root, "exec", "demo", "--", "sh", "-c", script)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"

    def interrupted() -> bool:
        """Again and again: of two that come close together one may be all that is noticed."""
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
        return process.poll() is not None

    for _ in range(3):
        assert not interrupted()
    eventually(interrupted, "its end, though the command does not end")
    assert process.returncode == 130


def test_a_reader_that_leaves_ends_the_command(hostd: FakeDaemon, root: Path) -> None:
    process = _popen(root, "exec", "demo", "--", "sh", "-c", "yes || exit 3")
    assert process.stdout is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.wait(PATIENCE) in (3, 141)
    assert process.stderr is not None
    process.stderr.close()


def test_a_slow_reader_does_not_keep_signals_from_the_command(
    hostd: FakeDaemon, root: Path
) -> None:
    process = _popen(root, "exec", "demo", "--", "sh", "-c", "exec yes")
    assert process.stdout is not None
    eventually(lambda: full(process.stdout), "every pipe between us to be full")
    process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 143
    assert len(out) < 2_000_000


def full(pipe: IO[bytes] | None) -> bool:
    """Nothing is added to it any more; the writer before it is held up then, too."""
    assert pipe is not None
    before = waiting_in(pipe)
    time.sleep(0.5)
    return before == waiting_in(pipe) >= 4096


def waiting_in(pipe: IO[bytes]) -> int:
    octets = fcntl.ioctl(pipe.fileno(), termios.FIONREAD, bytes(4))
    return int.from_bytes(octets, sys.byteorder)


def test_a_daemon_that_dies_is_one_clear_error(root: Path, hostctl: Hostctl) -> None:
    def die(call: Call) -> list[Message]:
        return []

    with FakeDaemon(root / "run" / "gitmoat" / "hostd.sock", {"exec": die}):
        done = hostctl("exec", "demo", "--", "true")
    assert done.returncode == 125
    assert done.stderr.startswith("error: hostd closed the connection before it answered [C103]\n")


def test_run_gives_125_when_the_sandbox_cannot_be_made_and_127_when_there_is_no_program(
    root: Path, hostctl: Hostctl
) -> None:
    error = {"code": "R101", "what": "no room", "why": "", "fix": "", "exit": 1}
    missing = {**error, "code": "R107", "exit": 127}
    socket = root / "run" / "gitmoat" / "hostd.sock"
    with FakeDaemon(socket, {"run": {"error": error}, "exec": {"error": missing}}):
        assert hostctl("run", "--", "true").returncode == 125
        assert hostctl("exec", "demo", "--", "true").returncode == 127


def test_json_of_an_attached_run_goes_to_stderr(hostd: FakeDaemon, hostctl: Hostctl) -> None:
    done = hostctl("-q", "--json", "run", "--", "echo", "hello")
    assert done.stdout == "hello\n"
    summary = json.loads(done.stderr)
    assert summary["schema"] == "gitmoat.run/1"
    assert (summary["sandbox"], summary["exit"]) == ("0123456789ab", 0)


def test_t_gives_the_command_a_terminal_of_its_own_with_our_size(
    hostd: FakeDaemon, root: Path
) -> None:
    terminal = Terminal(root, "exec", "-it", "demo", "--", "sh", "-c", "tty -s && stty size")
    terminal.read_until(b"40 100\r\n")
    terminal.close()
    assert terminal.process.returncode == 0


def test_keys_and_sizes_reach_the_command_and_our_terminal_is_restored(
    hostd: FakeDaemon, root: Path
) -> None:
    script = "trap 'stty size; exit 4' WINCH; echo ready; while :; do sleep 0.1; done"
    terminal = Terminal(root, "exec", "-it", "demo", "--", "sh", "-c", script)
    terminal.read_until(b"ready")
    terminal.resize(50, 132)
    terminal.read_until(b"50 132")
    terminal.process.wait(PATIENCE)
    assert termios.tcgetattr(terminal.slave) == terminal.before
    terminal.close()
    assert terminal.process.returncode == 4


def test_ctrl_c_is_a_key_for_the_command_not_a_signal_for_us(hostd: FakeDaemon, root: Path) -> None:
    script = "trap 'echo interrupted; exit 5' INT; echo ready; while :; do sleep 0.1; done"
    terminal = Terminal(root, "exec", "-it", "demo", "--", "sh", "-c", script)
    terminal.read_until(b"ready")
    terminal.type(b"\x03")
    terminal.read_until(b"interrupted")
    terminal.close()
    assert terminal.process.returncode == 5


def test_t_without_a_terminal_is_a_usage_error(hostd: FakeDaemon, hostctl: Hostctl) -> None:
    done = hostctl("exec", "-t", "demo", "--", "true")
    assert done.returncode == 2
    assert "-t needs a terminal" in done.stderr

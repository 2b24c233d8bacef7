"""hostctl talks only to the expected server at a safe path."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from tests.cli.command import Hostctl
from tests.fakes.daemon import FakeDaemon, Message

LS: dict[str, Message] = {"ls": {"ok": True, "items": []}}


def test_a_symlinked_socket_directory_is_refused(root: Path, hostctl: Hostctl) -> None:
    real = root / "run" / "elsewhere"
    real.mkdir(parents=True, mode=0o700)
    (root / "run" / "gitmoat").symlink_to(real)
    done = hostctl("ls")
    assert done.returncode == 7
    assert done.stderr.startswith("error: hostd's control socket is not safe to use [C101]\n")
    assert "symlink" in done.stderr


def test_a_directory_others_can_write_to_is_refused(root: Path, hostctl: Hostctl) -> None:
    with FakeDaemon(root / "run" / "gitmoat" / "hostd.sock", LS) as daemon:
        os.chmod(root / "run" / "gitmoat", 0o777)
        done = hostctl("ls")
        os.chmod(root / "run" / "gitmoat", 0o700)
    assert (done.returncode, daemon.requests) == (7, [])


def test_a_server_of_another_uid_is_refused(root: Path, hostctl: Hostctl) -> None:
    path = root / "run" / "gitmoat" / "hostd.sock"
    with FakeDaemon(path, LS) as daemon:
        os.chown(path, 4321, -1)
        done = hostctl("ls")
    assert (done.returncode, daemon.requests) == (7, [])
    assert "belongs to uid 4321" in done.stderr


def test_a_stale_socket_means_that_the_daemon_is_not_running(root: Path, hostctl: Hostctl) -> None:
    path = root / "run" / "gitmoat" / "hostd.sock"
    path.parent.mkdir(parents=True, mode=0o700)
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    done = hostctl("ls")
    assert done.returncode == 5
    assert done.stderr.splitlines()[0] == "error: hostd is not running [C103]"


def test_strange_answers_are_errors_and_never_tracebacks(root: Path, hostctl: Hostctl) -> None:
    path = root / "run" / "gitmoat" / "hostd.sock"
    for answer in ({"okay": 1}, {"error": "no"}, {"ok": False}, {"error": {"what": "a\x1b[2Jb\n"}}):
        with FakeDaemon(path, {"ls": answer}):
            done = hostctl("ls")
        assert done.returncode == 1
        assert done.stderr.startswith("error: ")
        assert len(done.stderr.splitlines()) == 3
        assert "\x1b" not in done.stderr and "Traceback" not in done.stderr

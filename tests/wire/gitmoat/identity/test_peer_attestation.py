"""Who is on the other end of a Unix socket, with real processes of several uids."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitmoat.identity.peer import NotAttested, attest
from tests.fakes.processes import Child
from tests.waiting import PATIENCE

HELPER, UNTRUSTED = 61002, 61003
SERVED = frozenset({HELPER})
CGROUPS = next(p for p in (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")) if p.exists())


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with tempfile.TemporaryDirectory(prefix="gm", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(f"{folder}/cred.sock")
            os.chmod(f"{folder}/cred.sock", 0o666)
            sock.listen(8)
            yield sock


def connect(child: Child, listener: socket.socket) -> None:
    child.do(f"s = socket.socket(socket.AF_UNIX); s.connect({listener.getsockname()!r})")


def refusal(listener: socket.socket, cgroups: frozenset[int] | None = None) -> tuple[str, int]:
    accepted, _ = listener.accept()
    with accepted, pytest.raises(NotAttested) as refused:
        attest(accepted, SERVED, cgroups)
    return refused.value.code, refused.value.uid


def test_the_helper_is_attested(listener: socket.socket) -> None:
    with Child(HELPER) as child:
        connect(child, listener)
        accepted, _ = listener.accept()
        with accepted:
            peer = attest(accepted, SERVED, None)
        assert (peer.pid, peer.uid, peer.gid) == (child.pid, HELPER, HELPER)


@pytest.mark.parametrize("uid", [UNTRUSTED, 0, 65534])
def test_another_uid_is_refused_and_named(listener: socket.socket, uid: int) -> None:
    with Child(uid) as child:
        connect(child, listener)
        assert refusal(listener) == ("H101", uid)


def test_what_counts_is_the_uid_at_connect_not_at_socket(listener: socket.socket) -> None:
    with Child(0) as child:
        child.do("s = socket.socket(socket.AF_UNIX)")
        child.do(f"os.setgid({HELPER}); os.setuid({HELPER})")
        child.do(f"s.connect({listener.getsockname()!r})")
        accepted, _ = listener.accept()
        with accepted:
            assert attest(accepted, SERVED, None).uid == HELPER


def test_a_peer_that_has_become_somebody_else_is_refused(listener: socket.socket) -> None:
    with Child(0) as child:
        child.do(f"os.seteuid({HELPER})")
        connect(child, listener)
        child.do("os.seteuid(0)")
        assert refusal(listener) == ("H102", HELPER)


def test_a_peer_that_exited_before_it_is_looked_at_is_refused(listener: socket.socket) -> None:
    with Child(HELPER) as child:
        connect(child, listener)
        child.tell("os._exit(0)")
        child.process.wait()
        assert refusal(listener) == ("H102", HELPER)


def test_a_zombie_is_refused(listener: socket.socket) -> None:
    with Child(HELPER) as child:
        connect(child, listener)
        child.tell("os._exit(0)")
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert refusal(listener) == ("H102", HELPER)


def test_a_grandchild_that_keeps_the_descriptor_is_refused(listener: socket.socket) -> None:
    with Child(HELPER) as child:
        connect(child, listener)
        # The grandchild lives as long as the test holds its standard input.
        child.tell("os.fork() and os._exit(0)")
        child.process.wait()
        assert refusal(listener) == ("H102", HELPER)


def test_a_peer_attested_once_is_not_attested_for_ever(listener: socket.socket) -> None:
    with Child(HELPER) as child:
        connect(child, listener)
        accepted, _ = listener.accept()
        with accepted:
            attest(accepted, SERVED, None)
            child.process.kill()
            child.process.wait()
            with pytest.raises(NotAttested):
                attest(accepted, SERVED, None)


@pytest.fixture
def cgroup() -> Iterator[Path]:
    path = CGROUPS / f"gitmoat-test-{os.getpid()}"
    path.mkdir()
    try:
        yield path
    finally:
        path.rmdir()


def test_the_cgroup_must_be_an_expected_one(listener: socket.socket, cgroup: Path) -> None:
    expected = frozenset({cgroup.stat().st_ino})
    with Child(HELPER) as child:
        connect(child, listener)
        assert refusal(listener, expected) == ("H102", HELPER)
        (cgroup / "cgroup.procs").write_text(str(child.pid))
        connect(child, listener)
        accepted, _ = listener.accept()
        with accepted:
            assert attest(accepted, SERVED, expected).cgroup == cgroup.stat().st_ino


def test_no_expected_cgroup_at_all_serves_nobody(listener: socket.socket) -> None:
    with Child(HELPER) as child:
        connect(child, listener)
        assert refusal(listener, frozenset()) == ("H102", HELPER)


def test_no_descriptor_is_left_behind(listener: socket.socket) -> None:
    with Child(HELPER) as child:
        connect(child, listener)
        accepted, _ = listener.accept()
        with accepted:
            before = len(os.listdir("/proc/self/fd"))
            for _ in range(20):
                attest(accepted, SERVED, None)
                with pytest.raises(NotAttested):
                    attest(accepted, SERVED, frozenset())
            assert len(os.listdir("/proc/self/fd")) == before


def test_a_socket_that_is_not_from_a_connect_has_no_peer_to_attest() -> None:
    """A pair made in one process shows that process; it is not of the served uids."""
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(NotAttested) as refused:
        attest(ours, SERVED, None)
    assert refused.value.code == "H101"


# In a pid namespace of its own, so that the next pid can be chosen.
PID_REUSED = """
import os, socket, sys, tempfile
from pathlib import Path
from gitmoat.identity.peer import NotAttested, attest

folder = tempfile.mkdtemp(dir="/tmp")
os.chmod(folder, 0o755)
listener = socket.socket(socket.AF_UNIX)
listener.bind(folder + "/s")
os.chmod(folder + "/s", 0o666)
listener.listen(1)
gone = os.fork()
if not gone:
    os.setgid(61002)
    os.setuid(61002)
    socket.socket(socket.AF_UNIX).connect(folder + "/s")
    os._exit(0)
os.waitpid(gone, 0)
Path("/proc/sys/kernel/ns_last_pid").write_text(str(gone - 1))
r, w = os.pipe()
again = os.fork()
if not again:
    os.setgid(61002)
    os.setuid(61002)
    os.close(w)
    os.read(r, 1)
    os._exit(0)
assert again == gone, (again, gone)
accepted, _ = listener.accept()
try:
    attest(accepted, frozenset({61002}), None)
    print("attested")
except NotAttested as refused:
    print(refused.code)
os.close(w)
os.waitpid(again, 0)
os.unlink(folder + "/s")
os.rmdir(folder)
"""


def test_a_process_that_got_the_dead_peers_pid_is_not_taken_for_it() -> None:
    ended = subprocess.run(
        ["/usr/bin/unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", PID_REUSED],
        cwd=Path(__file__).parents[4],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (ended.stdout, ended.stderr) == ("H102\n", "")

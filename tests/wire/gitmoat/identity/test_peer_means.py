"""What is known of a peer on older kernels: less, and never by guessing."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitmoat.identity.peer import AttestedPeer, Means, NotAttested, attest, find_means
from tests.fakes.processes import Child

HELPER, UNTRUSTED = 61002, 61003
SERVED = frozenset({HELPER})
CGROUPS = next(p for p in (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")) if p.exists())
OLDER = (Means.PIDFD, Means.CREDENTIALS)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with tempfile.TemporaryDirectory(prefix="gm", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(f"{folder}/cred.sock")
            os.chmod(f"{folder}/cred.sock", 0o666)
            sock.listen(8)
            yield sock


@pytest.fixture
def cgroup() -> Iterator[Path]:
    path = CGROUPS / f"gitmoat-means-{os.getpid()}"
    path.mkdir()
    yield path
    path.rmdir()


def connect(child: Child, listener: socket.socket) -> None:
    child.do(f"s = socket.socket(socket.AF_UNIX); s.connect({listener.getsockname()!r})")


def judge(
    listener: socket.socket, means: Means, cgroups: frozenset[int] | None = None
) -> AttestedPeer | str:
    accepted, _ = listener.accept()
    with accepted:
        try:
            return attest(accepted, SERVED, cgroups, means)
        except NotAttested as refused:
            return refused.code


def test_this_kernel_says_all_or_less_but_the_same_each_time() -> None:
    assert find_means() is find_means()


@pytest.mark.parametrize("means", OLDER)
def test_the_uid_counts_as_before(listener: socket.socket, means: Means) -> None:
    with Child(HELPER) as helper, Child(UNTRUSTED) as other:
        connect(helper, listener)
        peer = judge(listener, means)
        assert isinstance(peer, AttestedPeer)
        assert (peer.pid, peer.uid, peer.cgroup) == (helper.pid, HELPER, None)
        connect(other, listener)
        assert judge(listener, means) == "H101"


def test_with_a_pidfd_a_peer_that_has_gone_is_refused(listener: socket.socket) -> None:
    with Child(HELPER) as child:
        connect(child, listener)
        child.process.kill()
        child.process.wait()
        assert judge(listener, Means.PIDFD) == "H102"


@pytest.mark.parametrize("means", OLDER)
def test_with_a_proc_the_cgroup_is_found_there(
    listener: socket.socket, cgroup: Path, means: Means
) -> None:
    expected = frozenset({cgroup.stat().st_ino})
    with Child(HELPER) as child:
        connect(child, listener)
        assert judge(listener, means, expected) == "H102"
        (cgroup / "cgroup.procs").write_text(str(child.pid))
        connect(child, listener)
        peer = judge(listener, means, expected)
        assert isinstance(peer, AttestedPeer)
        assert peer.cgroup == cgroup.stat().st_ino


@pytest.mark.parametrize("means", OLDER)
def test_a_peer_that_has_gone_has_no_cgroup_to_be_found(
    listener: socket.socket, means: Means
) -> None:
    with Child(HELPER) as child:
        connect(child, listener)
        child.process.kill()
        child.process.wait()
        assert judge(listener, means, frozenset({1})) == "H102"

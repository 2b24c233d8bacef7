"""The process that forks for hostd, asked for what cannot be, and for what does not begin."""

from __future__ import annotations

import errno
import os
import resource
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from attrs import define, evolve, field

from gitmoat.confine.confining import Limits
from hostd.process.children import MOST_OF_ONE_CAUSE
from hostd.process.requests import (
    MOST_DESCRIPTORS,
    Alive,
    Answer,
    Answered,
    Asked,
    Command,
    Ended,
    Ping,
    Refused,
    Request,
    Started,
    Survey,
    packed,
    unpack_answered,
)
from tests.waiting import eventually

_HERE = Command(argv=("/bin/true",), environment={}, limits=Limits(open_files=64))
_PATIENCE = 60.0


@define
class Launcher:
    link: socket.socket
    pid: int
    heard: list[Answered] = field(factory=list)

    def send(self, number: int, request: Request, *descriptors: int) -> None:
        socket.send_fds(self.link, [packed(Asked(number=number, request=request))], descriptors)

    def answer(self, number: int) -> Answer:
        """What it says to one request; what it says meanwhile is kept."""
        while True:
            for said in self.heard:
                if said.number == number and not isinstance(said.answer, Ended):
                    self.heard.remove(said)
                    return said.answer
            self.hear()

    def refusal(self, number: int) -> Refused:
        answer = self.answer(number)
        assert isinstance(answer, Refused)
        return answer

    def hear(self) -> Answered:
        data, descriptors, _, _ = socket.recv_fds(self.link, 65536, 16)
        for descriptor in descriptors:
            os.close(descriptor)
        self.heard.append(unpack_answered(data))
        return self.heard[-1]

    def ask(self, request: Request, number: int = 1) -> Answer:
        self.send(number, request)
        return self.answer(number)

    def refused(self, request: Request, number: int = 1) -> Refused:
        self.send(number, request)
        return self.refusal(number)

    def begins(self, request: Request, number: int = 1) -> None:
        assert isinstance(self.ask(request, number), Started)

    def heard_of(self, number: int) -> list[Answered]:
        return [said for said in self.heard if said.number == number]

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def children(self) -> set[int]:
        text = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text(encoding="ascii")
        return set(map(int, text.split()))


@pytest.fixture
def launcher() -> Iterator[Launcher]:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    near.settimeout(_PATIENCE)
    command = [sys.executable, "-P", "-m", "hostd.launcher", str(far.fileno())]
    with near, far, subprocess.Popen(command, pass_fds=[far.fileno()]) as process:
        far.close()
        made = Launcher(near, process.pid)
        assert made.answer(0) == Alive()
        yield made
        left = made.children()
        near.close()
        process.kill()  # one that hangs does not end by itself
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def nowhere(tmp_path: Path) -> Path:
    """To join it waits until somebody reads: as slow as a directory on a dead network."""
    (tmp_path / "slow").mkdir()
    os.mkfifo(tmp_path / "slow" / "cgroup.procs")
    return tmp_path / "slow"


def stuck(nowhere: Path, cause: str = "a") -> Command:
    """A directory that is no cgroup cannot be forked into; the child opens the pipe, and waits."""
    return evolve(_HERE, cgroups=(str(nowhere),), cause=cause)


def killed(child: int) -> Answered:
    return Answered(number=0, answer=Ended(pid=child, status=-signal.SIGKILL))


def test_what_fails_before_the_fork_leaves_nothing_open(launcher: Launcher, tmp_path: Path) -> None:
    gone = evolve(_HERE, cgroups=(str(tmp_path / "gone"),))
    first = launcher.refused(gone)
    assert "No such file" in first.why
    before = launcher.descriptors()
    for _ in range(5):
        assert launcher.ask(gone) == first
    assert launcher.descriptors() == before


def test_what_is_not_understood_is_refused_at_once_to_who_asked(launcher: Launcher) -> None:
    launcher.link.send(b'{"number": 7, "request": {"op": "command", "argv": ["/bin/true"]}}')
    assert launcher.refusal(7).why == "request.environment: is missing"
    launcher.link.send(b'{"number": 8, "request": {"op": "format"}}')
    assert "not one of: ping," in launcher.refusal(8).why
    launcher.begins(_HERE)


@pytest.mark.parametrize("data", [b"?", b"[]", b'{"number": "7"}', b'{"request": {"op": "ping"}}'])
def test_what_has_no_number_is_nobodys_and_costs_nothing(launcher: Launcher, data: bytes) -> None:
    launcher.link.send(data)
    assert launcher.refusal(0).why
    launcher.begins(_HERE)


def test_a_request_with_too_many_descriptors_is_refused_to_who_asked(launcher: Launcher) -> None:
    before = launcher.descriptors()
    launcher.send(7, _HERE, *[0] * (MOST_DESCRIPTORS + 1))
    assert launcher.refusal(7).why == "request too large"
    eventually(lambda: launcher.descriptors() == before, "nothing left open")


def test_what_a_child_cannot_do_is_told_whole(launcher: Launcher) -> None:
    nowhere = "/" + "x" * 200
    refused = launcher.refused(evolve(_HERE, cwd=nowhere))
    assert refused.why.endswith(f"No such file or directory: '{nowhere}'")
    assert refused.errno == errno.ENOENT


def test_a_child_that_does_not_begin_delays_its_own_answer_alone(
    launcher: Launcher, nowhere: Path
) -> None:
    before = launcher.descriptors()
    launcher.send(1, stuck(nowhere))
    for number in range(2, 12):
        launcher.begins(_HERE, number)
        assert launcher.ask(Ping(), 100 + number) == Alive()
    assert launcher.heard_of(1) == []
    late = launcher.refusal(1)
    assert "did not start within 10 s" in late.why and late.code == "R117"
    eventually(lambda: not launcher.children(), "its end")
    launcher.begins(_HERE, 12)
    eventually(lambda: launcher.descriptors() == before, "nothing left open")


def test_a_child_that_is_stopped_is_ended_and_told_of_once(
    launcher: Launcher, nowhere: Path
) -> None:
    launcher.send(1, stuck(nowhere))
    eventually(launcher.children, "a child")
    (child,) = launcher.children()
    os.kill(child, signal.SIGSTOP)
    assert launcher.refusal(1).code == "R117"
    while killed(child) not in launcher.heard:
        launcher.hear()
    assert launcher.ask(Ping(), 3) == Alive()
    assert launcher.heard_of(1) == []


def test_a_child_that_ends_before_it_begins_is_told_of_before_its_end(
    launcher: Launcher, nowhere: Path
) -> None:
    launcher.send(1, stuck(nowhere))
    eventually(launcher.children, "a child")
    (child,) = launcher.children()
    os.kill(child, signal.SIGKILL)
    assert launcher.hear() == Answered(number=1, answer=Started(pid=child))
    assert launcher.hear() == killed(child)


def test_a_child_that_is_to_answer_by_itself_and_dies_is_answered_for(launcher: Launcher) -> None:
    """Its network namespace is a pipe, to which it cannot go."""
    reader, writer = os.pipe()
    launcher.send(1, Survey(), reader)
    os.close(reader)
    os.close(writer)
    assert "setns" in launcher.refusal(1).why


def test_one_sandbox_does_not_take_all_children_and_the_others_get_theirs(
    launcher: Launcher, nowhere: Path
) -> None:
    for number in range(1, MOST_OF_ONE_CAUSE + 1):
        launcher.send(number, stuck(nowhere))
    refused = launcher.refused(stuck(nowhere), 1000)
    assert refused.code == "R117" and "too many" in refused.why
    launcher.begins(evolve(_HERE, cause="b"), 1001)
    launcher.begins(_HERE, 1002)
    assert launcher.refusal(1).code == "R117"


def test_a_hostd_that_does_not_read_holds_nothing_up_but_what_it_does_not_read(
    launcher: Launcher, nowhere: Path
) -> None:
    """More answers than the link takes: a child's time is over all the same, and none is lost."""
    launcher.send(1000, stuck(nowhere))
    eventually(launcher.children, "a child")
    (held,) = launcher.children()
    sent = 0
    writable = select.poll()
    writable.register(launcher.link, select.POLLOUT)
    while writable.poll(2000):  # in the end neither direction takes any more
        sent += 1
        launcher.send(sent, evolve(_HERE, cwd="/" + "y" * 3500))
    eventually(lambda: not Path(f"/proc/{held}").exists(), "its end", 60)
    for number in range(1, sent + 1):
        assert "File name too long" in launcher.refusal(number).why
    assert launcher.refusal(1000).code == "R117"


def test_a_command_starts_where_the_machine_allows_fewer_processes(launcher: Launcher) -> None:
    """Half of threads-max, which is little where memory is."""
    resource.prlimit(launcher.pid, resource.RLIMIT_NPROC, (3900, 3900))
    limits = Limits(open_files=64, processes=4080)
    launcher.begins(evolve(_HERE, uid=54321, limits=limits))


def test_a_fork_for_which_there_is_no_descriptor_leaves_nothing_open(launcher: Launcher) -> None:
    resource.prlimit(launcher.pid, resource.RLIMIT_NOFILE, (64, 64))  # the pipe's end goes above
    before = launcher.descriptors()
    for number in range(1, 6):
        launcher.refused(_HERE, number)
    assert launcher.descriptors() == before


def test_its_end_is_seen_although_a_child_of_its_is_held_up(
    launcher: Launcher, nowhere: Path
) -> None:
    launcher.send(1, stuck(nowhere))
    eventually(launcher.children, "a child")
    (held,) = launcher.children()
    eventually(lambda: _sockets_of(held) == 0, "a child without the link")
    os.kill(launcher.pid, signal.SIGKILL)
    try:
        assert launcher.link.recv(1) == b""
    finally:
        with suppress(ProcessLookupError):
            os.kill(held, signal.SIGKILL)


def _sockets_of(pid: int) -> int:
    links = [os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir()]
    return sum(each.startswith("socket:") for each in links)


def test_with_hostd_go_the_children_that_have_not_begun(launcher: Launcher, nowhere: Path) -> None:
    launcher.send(1, stuck(nowhere))
    eventually(launcher.children, "a child")
    (child,) = launcher.children()
    pidfd = os.pidfd_open(child)
    launcher.link.shutdown(socket.SHUT_RDWR)
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    assert poller.poll(_PATIENCE * 1000), "the child goes on"
    os.close(pidfd)

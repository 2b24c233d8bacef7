"""Messages and descriptors over sequenced packets: nothing leaks, nothing is half taken."""

import array
import fcntl
import os
import socket
import stat
from collections.abc import Iterator

import pytest

from gitmoat.net.transport.seqpacket import SeqpacketConnection
from tests.fakes.hand_loop import HandLoop

_pipes: set[int] = set()
RIGHTS = (socket.SOL_SOCKET, socket.SCM_RIGHTS)


def open_descriptors() -> set[int]:
    """Without the one that listing them opens."""
    listed = [int(each) for each in os.listdir("/proc/self/fd")]
    return {each for each in listed if _is_open(each)}


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


class End:
    """A connection under test and its peer as a plain socket."""

    def __init__(self, max_fds: int = 1, max_message: int = 64 * 1024) -> None:
        self.loop = HandLoop()
        self.messages: list[tuple[bytes, list[int]]] = []
        self.lost = 0
        near, self.peer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.peer.setblocking(False)
        self.connection = SeqpacketConnection(
            self.loop, near, self._message, self._lose, max_fds, max_message
        )

    def give(self, data: bytes, fds: list[int] | None = None) -> None:
        ancillary = [(*RIGHTS, array.array("i", fds))] if fds else []
        self.peer.sendmsg([data], ancillary)
        self.loop.settle()

    def close(self) -> None:
        self.connection.close()
        self.peer.close()
        for _, fds in self.messages:
            for fd in fds:
                os.close(fd)

    def _message(self, data: bytes, fds: list[int]) -> None:
        self.messages.append((data, fds))

    def _lose(self) -> None:
        self.lost += 1


@pytest.fixture(autouse=True)
def _no_descriptor_is_leaked() -> Iterator[None]:
    before = open_descriptors()
    yield
    # The reactor of other tests makes a pipe of its own when the first of them runs.
    assert not [each for each in open_descriptors() - before if not _is_strange_pipe(each)]


def _is_strange_pipe(fd: int) -> bool:
    status = os.fstat(fd)
    return stat.S_ISFIFO(status.st_mode) and status.st_ino not in _pipes


@pytest.fixture
def end() -> Iterator[End]:
    made = End()
    yield made
    made.close()


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    _pipes.add(os.fstat(ends[0]).st_ino)
    yield ends
    for each in ends:
        os.close(each)


def test_messages_keep_their_bounds(end: End) -> None:
    for data in (b"one", b"two", b"x" * 60_000):
        end.give(data)
    assert end.messages == [(b"one", []), (b"two", []), (b"x" * 60_000, [])]
    end.connection.send(b"a")
    end.connection.send(b"bc")
    assert (end.peer.recv(100), end.peer.recv(100)) == (b"a", b"bc")


def test_descriptor_arrives_close_on_exec_and_works(end: End, pipe: tuple[int, int]) -> None:
    end.give(b"take", [pipe[1]])
    [(data, [fd])] = end.messages
    assert data == b"take" and fcntl.fcntl(fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
    os.write(fd, b"hello")
    assert os.read(pipe[0], 10) == b"hello"


def test_descriptor_is_sent_and_the_sender_keeps_its_own(end: End, pipe: tuple[int, int]) -> None:
    end.connection.send(b"take", [pipe[1]])
    data, fds, _, _ = socket.recv_fds(end.peer, 100, 4)
    assert data == b"take" and len(fds) == 1
    os.close(fds[0])
    os.fstat(pipe[1])


def test_unexpected_descriptors_are_closed(end: End, pipe: tuple[int, int]) -> None:
    before = open_descriptors()
    end.give(b"take", [pipe[1], pipe[0], pipe[0]])
    [(_, fds)] = end.messages
    assert len(fds) == 1 and open_descriptors() - before == set(fds)


def test_descriptors_nobody_takes_are_closed(pipe: tuple[int, int]) -> None:
    end = End(max_fds=0)
    before = open_descriptors()
    end.give(b"take", [pipe[1], pipe[0]])
    assert end.messages == [(b"take", [])] and open_descriptors() == before
    end.close()


def test_message_cut_short_ends_the_connection_and_closes_its_descriptors(
    pipe: tuple[int, int],
) -> None:
    end = End(max_message=10)
    before = open_descriptors()
    end.give(b"x" * 11, [pipe[1]])
    assert end.messages == [] and end.lost == 1
    assert len(before - open_descriptors()) == 1 and not open_descriptors() - before
    end.close()


def test_descriptors_cut_short_end_the_connection_and_are_closed(pipe: tuple[int, int]) -> None:
    end = End()
    before = open_descriptors()
    end.give(b"take", [pipe[1]] * 100)
    assert end.messages == [] and end.lost == 1
    assert not open_descriptors() - before
    end.close()


def test_empty_message_with_descriptors_ends_the_connection(
    end: End, pipe: tuple[int, int]
) -> None:
    before = open_descriptors()
    end.give(b"", [pipe[1]])
    assert end.messages == [] and end.lost == 1 and not open_descriptors() - before


def test_end_of_the_peer_is_told_once(end: End) -> None:
    end.give(b"last")
    end.peer.close()
    end.loop.settle()
    assert end.messages == [(b"last", [])] and end.lost == 1
    end.connection.send(b"late")
    end.connection.close()
    assert end.lost == 1 and not end.loop.readers


def test_own_close_is_not_told(end: End) -> None:
    end.connection.close()
    end.connection.close()
    assert end.lost == 0 and not end.loop.readers
    with pytest.raises(ValueError, match="end"):
        end.connection.send(b"")


def test_send_to_a_peer_that_has_gone_ends_the_connection(end: End) -> None:
    end.peer.close()
    end.connection.send(b"x")
    assert end.lost == 1


def test_messages_wait_in_order_with_their_descriptors_for_a_slow_peer(
    end: End, pipe: tuple[int, int]
) -> None:
    sent = fill(end)
    copy = os.dup(pipe[1])
    end.connection.send(b"with", [copy])
    os.close(copy)
    end.connection.send(b"after")
    got: list[tuple[bytes, list[int]]] = []
    while len(got) < sent + 2:
        data, fds, _, _ = socket.recv_fds(end.peer, 70_000, 4)
        got.append((data, list(fds)))
        end.loop.settle()
    assert [len(data) for data, _ in got[:-2]] == [40_000] * sent
    assert got[-2][0] == b"with" and got[-1] == (b"after", [])
    os.write(got[-2][1][0], b"ok")
    os.close(got[-2][1][0])
    assert os.read(pipe[0], 10) == b"ok" and not end.loop.writers


def test_waiting_descriptors_are_closed_with_the_connection(
    end: End, pipe: tuple[int, int]
) -> None:
    fill(end)
    end.connection.send(b"with", [pipe[1]])
    end.connection.close()
    assert not end.loop.writers


def test_peer_that_never_reads_is_dropped(end: End, pipe: tuple[int, int]) -> None:
    for _ in range(200):
        end.connection.send(b"x" * 40_000, [pipe[1]])
    assert end.lost == 1


def test_peer_gone_with_messages_waiting_closes_everything(end: End, pipe: tuple[int, int]) -> None:
    fill(end)
    end.connection.send(b"with", [pipe[1]])
    end.connection.send(b"more", [pipe[1]])
    end.peer.close()
    end.loop.settle()
    assert end.lost == 1 and not end.loop.writers and not end.loop.readers


def test_copy_that_fails_takes_none_of_them(end: End, pipe: tuple[int, int]) -> None:
    fill(end)
    before = open_descriptors()
    with pytest.raises(OSError, match="Bad file descriptor"):
        end.connection.send(b"with", [pipe[1], 1_000_000])
    assert open_descriptors() == before, [
        os.readlink(f"/proc/self/fd/{x}") for x in open_descriptors() - before
    ]


def test_closing_inside_a_message_stops_the_next(pipe: tuple[int, int]) -> None:
    loop, got = HandLoop(), []

    def message(data: bytes, fds: list[int]) -> None:
        got.append(data)
        connection.close()

    near, peer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection = SeqpacketConnection(loop, near, message, lambda: got.append(b"lost"))
    with peer:
        peer.send(b"one")
        peer.send(b"two")
        loop.settle()
    assert got == [b"one"]


def fill(end: End) -> int:
    """Send until a message has to wait; how many were sent in all."""
    sent = 0
    while not end.loop.writers:
        end.connection.send(b"x" * 40_000)
        sent += 1
    return sent

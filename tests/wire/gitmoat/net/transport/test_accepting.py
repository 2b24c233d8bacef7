"""Connections are handed over while there is room, and a fault or a full table ends nothing."""

from __future__ import annotations

import errno
import os
import resource
import socket

import pytest
from twisted.python.failure import Failure

from gitmoat.net.transport.accepting import Acceptor
from tests.fakes.hand_loop import HandLoop
from tests.fakes.sidecar_world import Loop


class Full:
    """A listener that always has somebody waiting and never a descriptor for them."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.tries = 0

    def accept(self) -> tuple[socket.socket, object]:
        self.tries += 1
        raise OSError(self.number, "none")

    def setblocking(self, flag: bool) -> None: ...

    def fileno(self) -> int:
        return 5

    def close(self) -> None: ...


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.EINVAL])
def test_without_descriptors_it_rests_instead_of_spinning(number: int) -> None:
    loop, listener = Loop(), Full(number)
    acceptor = Acceptor(loop, listener, 10, socket.socket.close)  # type: ignore[arg-type]
    acceptor.start()
    for _ in range(10_000):  # ten seconds of a reactor that is always woken
        for reader in list(loop.readers):
            reader.doRead()
        loop.advance(0.001)
    assert listener.tries <= 21
    acceptor.close()
    assert loop.getDelayedCalls() == []


def test_clients_that_gave_up_are_skipped() -> None:
    loop, listener = Loop(), Full(errno.ECONNABORTED)
    acceptor = Acceptor(loop, listener, 10, socket.socket.close)  # type: ignore[arg-type]
    acceptor.start()
    acceptor.doRead()
    assert listener.tries == 16
    assert acceptor in loop.readers


def test_at_the_limit_the_rest_waits_in_the_backlog_until_one_ends() -> None:
    loop = Loop()
    taken: list[socket.socket] = []
    listener = socket.create_server(("127.0.0.1", 0))
    acceptor = Acceptor(loop, listener, 2, taken.append)
    acceptor.start()
    clients = [socket.create_connection(listener.getsockname()) for _ in range(3)]
    acceptor.doRead()
    assert len(taken) == 2
    assert acceptor not in loop.readers
    acceptor.ended()
    assert acceptor in loop.readers
    acceptor.doRead()
    assert len(taken) == 3
    acceptor.close()
    for each in clients + taken:
        each.close()


def test_a_fault_in_one_handler_does_not_end_the_service() -> None:
    loop = Loop()
    listener = socket.create_server(("127.0.0.1", 0))

    def broken(sock: socket.socket) -> None:
        raise RuntimeError("a bug")

    acceptor = Acceptor(loop, listener, 1, broken)
    acceptor.start()
    for _ in range(3):
        with socket.create_connection(listener.getsockname()) as client:
            assert acceptor in loop.readers
            with pytest.raises(RuntimeError):
                acceptor.doRead()
            loop.removeReader(acceptor)  # what a reactor does then
            acceptor.connectionLost(Failure(RuntimeError()))
            loop.advance(1)
            assert client.recv(1) == b""
    acceptor.close()


# Control sockets: sequenced packets, and no limit


def listening(loop: HandLoop, path: str, accepted: list[socket.socket]) -> Acceptor:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.bind(path)
    sock.listen(5)
    acceptor = Acceptor(loop, sock, None, accepted.append)
    acceptor.start()
    return acceptor


def connected(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.connect(path)
    return sock


def test_connections_are_handed_over_close_on_exec(tmp_path: object) -> None:
    loop, accepted = HandLoop(), list[socket.socket]()
    path = f"{tmp_path}/s"
    listener = listening(loop, path, accepted)
    clients = [connected(path), connected(path)]
    loop.settle()
    assert len(accepted) == 2
    assert all(not each.get_inheritable() for each in accepted)
    listener.close()
    listener.close()
    assert not loop.readers
    for each in clients + accepted:
        each.close()


def test_connection_whose_handler_fails_is_closed_and_the_next_is_served(
    tmp_path: object,
) -> None:
    loop, accepted = HandLoop(), list[socket.socket]()
    path = f"{tmp_path}/s"
    listener = listening(loop, path, accepted)

    def fail(connection: socket.socket) -> None:
        raise ZeroDivisionError

    listener._on_connection = fail
    first = connected(path)
    with pytest.raises(ZeroDivisionError):
        loop.settle()
    loop.removeReader(listener)
    listener.connectionLost(None)  # type: ignore[arg-type]
    assert first.recv(10) == b""
    listener._on_connection = accepted.append
    second = connected(path)
    loop.settle()
    assert accepted == []
    loop.advance(1)
    loop.settle()
    assert len(accepted) == 1
    listener.close()
    for each in [first, second, *accepted]:
        each.close()


def test_listener_rests_when_no_descriptor_is_free(tmp_path: object) -> None:
    loop, accepted = HandLoop(), list[socket.socket]()
    path = f"{tmp_path}/s"
    listener = listening(loop, path, accepted)
    client = connected(path)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))), limits[1])
    )
    spare = exhaust()
    try:
        listener.doRead()
        assert accepted == [] and not loop.readers
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for fd in spare:
            os.close(fd)
    loop.advance(1)
    loop.settle()
    assert len(accepted) == 1
    listener.close()
    for each in [client, *accepted]:
        each.close()


def exhaust() -> list[int]:
    """Every descriptor that is still free."""
    taken: list[int] = []
    try:
        while True:
            taken.append(os.dup(0))
    except OSError:
        return taken

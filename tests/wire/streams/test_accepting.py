from __future__ import annotations

import errno
import socket

import pytest
from twisted.python.failure import Failure

from streams.accepting import Acceptor
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

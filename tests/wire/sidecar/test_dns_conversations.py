"""DNS on TCP at a real socket: so many questions of a connection are answered, whatever follows."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from twisted.internet.threads import deferToThread

from gitmoat.listeners import BUDGETS
from netpolicy.format.document import parse_policy
from netpolicy.upstreams import UpstreamTable
from sidecar.egress.dns_answers import DnsAnswers
from sidecar.egress.dns_listener import dns_port
from sidecar.egress.synthetic import SyntheticAddresses
from sidecar.kind import Scope
from sidecar.port.ports import Port
from tests.fakes.reactor_tests import on_reactor
from tests.fakes.sidecar_requests import WEB_POLICY, question

_PATIENCE = 60


@pytest.fixture
def place() -> Iterator[tuple[str, int]]:
    from twisted.internet import reactor

    scope = Scope(parse_policy(WEB_POLICY), UpstreamTable(()))
    answers = DnsAnswers(scope, SyntheticAddresses(0), lambda *told: None)
    listener = socket.create_server(("127.0.0.1", 0))
    where = listener.getsockname()
    loop: Any = reactor
    budget, serve = BUDGETS["dns_conversations"], dns_port(loop, answers)
    port = Port(loop, listener.detach(), budget, serve, waits=False)
    port.start()
    yield where
    port.drain(lambda: None)


def asked(numbers: range) -> bytes:
    messages = [question(number, f"n{number}.cdn.example") for number in numbers]
    return b"".join(len(each).to_bytes(2) + each for each in messages)


def heard(sock: socket.socket) -> list[int]:
    """The ids of all answers up to the end, which is an end and no reset."""
    data = b"".join(iter(lambda: sock.recv(65536), b""))
    found = []
    while data:
        size = int.from_bytes(data[:2])
        found.append(int.from_bytes(data[2:4]))
        data = data[2 + size :]
    return found


def conversation(place: tuple[str, int], *said: bytes) -> Callable[[], list[int]]:
    def talk() -> list[int]:
        with socket.create_connection(place, timeout=_PATIENCE) as sock:
            for each in said:
                sock.sendall(each)
            return heard(sock)

    return talk


@on_reactor
async def test_of_too_many_questions_the_first_hundred_are_answered(place: tuple[str, int]) -> None:
    for many in (101, 250, 3000):
        answered = await deferToThread(conversation(place, asked(range(many))))
        assert answered == list(range(100))


@on_reactor
async def test_the_hundredth_answer_is_the_end_also_of_questions_one_by_one(
    place: tuple[str, int],
) -> None:
    def talk() -> bytes:
        with socket.create_connection(place, timeout=_PATIENCE) as sock:
            for number in range(100):
                sock.sendall(asked(range(number, number + 1)))
                size = int.from_bytes(sock.recv(2, socket.MSG_WAITALL))
                assert len(sock.recv(size, socket.MSG_WAITALL)) == size
            return sock.recv(1)

    assert await deferToThread(talk) == b""


@on_reactor
async def test_what_is_no_question_ends_it_behind_the_answers_before(
    place: tuple[str, int],
) -> None:
    answered = await deferToThread(conversation(place, asked(range(5)), b"\xff\xff" + bytes(9)))
    assert answered == list(range(5))


@on_reactor
async def test_a_client_that_ends_early_has_its_answers(place: tuple[str, int]) -> None:
    def talk() -> list[int]:
        with socket.create_connection(place, timeout=_PATIENCE) as sock:
            sock.sendall(asked(range(3)))
            got = b""
            while got.count(b"\3cdn") < 3:
                got += sock.recv(65536)
            sock.shutdown(socket.SHUT_WR)
            assert sock.recv(1) == b""
        return [0]

    assert await deferToThread(talk) == [0]

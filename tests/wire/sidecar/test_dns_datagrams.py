"""DNS datagrams at a real socket: many at a time, each with its own answer."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from netpolicy.format.document import parse_policy
from netpolicy.upstreams import UpstreamTable
from sidecar.egress.dns_answers import DnsAnswers
from sidecar.egress.dns_listener import MOST, DnsDatagrams
from sidecar.egress.synthetic import SyntheticAddresses
from sidecar.kind import Scope
from tests.fakes.sidecar_requests import WEB_POLICY, question
from tests.fakes.sidecar_world import Loop
from tests.waiting import PATIENCE

NXDOMAIN = 3


class Server:
    def __init__(self) -> None:
        self.loop = Loop()
        self.refused: list[tuple[str | None, str, int]] = []
        scope = Scope(parse_policy(WEB_POLICY), UpstreamTable(()))
        answers = DnsAnswers(scope, SyntheticAddresses(0), lambda *told: self.refused.append(told))
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind(("127.0.0.1", 0))
        self.place = sock.getsockname()
        self.datagrams = DnsDatagrams(self.loop, sock, answers)
        self.datagrams.start()

    def turn(self) -> None:
        for reader in list(self.loop.readers):
            reader.doRead()

    def client(self) -> socket.socket:
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.settimeout(PATIENCE)
        sock.connect(self.place)
        return sock


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.datagrams.close()


def code(answer: bytes) -> int:
    return answer[3] & 15


def heard(client: socket.socket) -> list[bytes]:
    client.setblocking(False)
    found = []
    while True:
        try:
            found.append(client.recv(1024))
        except BlockingIOError:
            return found


def test_every_question_of_a_turn_gets_its_own_answer_with_its_own_id(server: Server) -> None:
    """Twice: what the first turn kept is what the second one answers with."""
    clients = [server.client() for _ in range(5)]
    for base in (0, 1000):
        for number in range(50):
            name = "web.example" if number % 2 else f"n{number}.cdn.example"
            clients[number % 5].send(question(base + number, name))
        server.turn()
        for which, client in enumerate(clients):
            answers = heard(client)
            wanted = [base + number for number in range(50) if number % 5 == which]
            assert [int.from_bytes(each[:2]) for each in answers] == wanted
            assert {code(each) for each in answers} == {0}
    for client in clients:
        client.close()
    assert not server.refused


def test_one_turn_takes_so_many_and_leaves_the_rest_to_the_next(server: Server) -> None:
    with server.client() as client:
        for number in range(MOST + 5):
            client.send(question(number, "web.example"))
        server.turn()
        assert len(heard(client)) == MOST
        server.turn()
        assert [int.from_bytes(each[:2]) for each in heard(client)] == [*range(MOST, MOST + 5)]
        server.turn()
        assert heard(client) == []


def test_what_deserves_no_answer_gets_none_and_takes_nobody_elses(server: Server) -> None:
    longest = question(9, "web.example") + bytes(512)
    sent = [
        b"", b"x", question(1, "web.example"), b"\0\2", longest, question(3, "evil.example"),
        b"\0\4\1\0" + bytes(8), longest, question(5, "web.example"), b"",
    ]  # fmt: skip
    for _ in range(2):
        with server.client() as client:
            for each in sent:
                client.send(each)
            server.turn()
            answers = heard(client)
        numbers = [int.from_bytes(each[:2]) for each in answers]
        assert numbers == [1, 3, 4, 5]
        assert [code(each) for each in answers] == [0, NXDOMAIN, 1, 0]
    assert server.refused == [("evil.example", "E101", 1)] * 2


def test_a_client_that_has_gone_costs_nobody_an_answer(server: Server) -> None:
    with server.client() as client, server.client() as gone:
        client.send(question(1, "web.example"))
        gone.send(question(2, "web.example"))
        gone.close()
        client.send(question(3, "web.example"))
        server.turn()
        assert [int.from_bytes(each[:2]) for each in heard(client)] == [1, 3]


def test_a_flood_of_refused_names_is_one_report_a_turn(server: Server) -> None:
    with server.client() as client:
        for number in range(MOST):
            client.send(question(number, "evil.example"))
        server.turn()
    assert server.refused == [("evil.example", "E101", MOST)]

"""Records by the buffer: the same with and without the names that pyOpenSSL does not publish."""

import pytest
from cryptography.hazmat.bindings.openssl.binding import Binding
from hypothesis import given, settings
from hypothesis import strategies as st
from OpenSSL import SSL
from twisted.internet.error import ConnectionDone

from gitmoat.identity.tls_options import PinnedClient, PinnedServer
from gitmoat.net.transport import openssl
from gitmoat.net.transport.descriptor import READ
from gitmoat.net.transport.openssl import INTO, ROOM, FastRecords, PortableRecords
from tests.fakes.examples import examples
from tests.fakes.sidecar_world import public

CLIENT, SERVER = bytes([2] * 32), bytes([1] * 32)
Kind = type[FastRecords] | type[PortableRecords]


class End:
    """One end of TLS in memory, whose records are handled by one of the two."""

    def __init__(self, kind: Kind, tls: SSL.Connection) -> None:
        self.tls = tls
        self.records = kind(tls)

    def all(self) -> bytes:
        said = b""
        while data := bytes(self.records.pull()):
            said += data
        return said

    def say(self, data: bytes) -> bytes:
        assert self.tls.send(data) == len(data)
        return self.all()

    def hear(self, data: bytes) -> tuple[bytes, Exception | None]:
        """As a socket would bring it."""
        heard = b""
        over: Exception | None = None
        while data and over is None:
            now, data = data[:READ], data[READ:]
            INTO[: len(now)] = now
            self.records.take(len(now))
            more, over = self.records.decrypt()
            self.records.forget()
            INTO[: len(now)] = bytes(len(now))
            heard += more
        return heard, over

    def shake(self, data: bytes) -> bytes:
        INTO[: len(data)] = data
        if data:
            self.records.take(len(data))
        try:
            self.tls.do_handshake()
        except SSL.WantReadError:
            pass
        self.records.forget()
        return self.all()


def ends(kind: Kind) -> tuple[End, End]:
    client = End(kind, PinnedClient(CLIENT, lambda: frozenset([public(SERVER)])).connection())
    server = End(kind, PinnedServer(SERVER, lambda key: True).connection())
    tickets = server.shake(client.shake(server.shake(client.shake(b""))))
    assert client.hear(tickets) == (b"", None)
    return client, server


def test_the_pinned_pyopenssl_has_what_is_needed_below_it() -> None:
    assert openssl.records_of is FastRecords


def test_nobody_else_can_write_where_what_came_was_kept() -> None:
    client, _ = ends(FastRecords)
    with pytest.raises(TypeError):
        client.tls.bio_write(b"x")


@given(
    sizes=st.lists(st.integers(1, 70_000), min_size=1, max_size=6),
    cuts=st.lists(st.integers(1, 90_000), min_size=1, max_size=6),
    kind=st.sampled_from([FastRecords, PortableRecords]),
)
@settings(max_examples=examples(60), deadline=None)
def test_whatever_is_said_is_heard_however_it_is_cut(
    sizes: list[int], cuts: list[int], kind: Kind
) -> None:
    client, server = ends(kind)
    said = [bytes([number % 256]) * size for number, size in enumerate(sizes)]
    wire = b"".join(map(client.say, said))
    heard, number = b"", 0
    while wire:
        cut = cuts[number % len(cuts)]
        more, over = server.hear(wire[:cut])
        assert over is None
        heard, wire, number = heard + more, wire[cut:], number + 1
    assert heard == b"".join(said)


def test_more_than_there_is_room_for_goes_and_comes_in_parts(records: Kind) -> None:
    client, server = ends(records)
    said = bytes(range(256)) * 16 * 1024
    assert client.tls.send(said) == len(said) > ROOM
    first = bytes(client.records.pull())
    assert len(first) == ROOM
    assert server.hear(first + client.all()) == (said, None)


def test_ends_are_not_mixed_up(records: Kind) -> None:
    pairs = [ends(records) for _ in range(3)]
    wires = [client.say(bytes([number]) * 40_000) for number, (client, _) in enumerate(pairs)]
    heard = [b""] * 3
    for at in range(0, max(map(len, wires)), 7_000):
        for number, (_, server) in enumerate(pairs):
            heard[number] += server.hear(wires[number][at : at + 7_000])[0]
    assert heard == [bytes([number]) * 40_000 for number in range(3)]


def test_goodbye_is_the_end_and_what_comes_behind_it_is_not_heard(records: Kind) -> None:
    client, server = ends(records)
    said = client.say(b"all")
    client.tls.shutdown()
    heard, over = server.hear(said + client.all() + b"\x17\x03\x03\x00\x05abcde")
    assert heard == b"all" and isinstance(over, ConnectionDone)
    assert isinstance(server.records.decrypt()[1], ConnectionDone)


def test_a_record_that_was_changed_is_an_error_of_its_own_connection_only(records: Kind) -> None:
    client, server = ends(records)
    good, bad = client.say(b"good"), bytearray(client.say(b"bad"))
    bad[-1] ^= 1
    heard, over = server.hear(good + bytes(bad))
    assert heard == b"good" and isinstance(over, SSL.Error)
    assert server.all()  # the alert
    assert server.records.decrypt()[0] == b""
    client, server = ends(records)
    assert server.hear(client.say(b"fine")) == (b"fine", None)


def test_what_is_no_tls_at_all_is_an_error(records: Kind) -> None:
    _, server = ends(records)
    heard, over = server.hear(b"GET / HTTP/1.1\r\n\r\n")
    assert heard == b"" and isinstance(over, SSL.Error)


def test_a_failure_that_others_left_behind_is_not_taken_for_ours() -> None:
    client, server = ends(FastRecords)
    wire = client.say(b"fine")
    lib = Binding().lib
    assert not lib.BIO_new_file(b"/nowhere/at/all", b"r")
    assert lib.ERR_peek_error()
    assert server.hear(wire) == (b"fine", None)
    lib.ERR_clear_error()


def test_what_was_not_used_is_never_read_again() -> None:
    client, server = ends(FastRecords)
    wire = client.say(b"x" * 100)
    INTO[: len(wire)] = wire
    server.records.take(len(wire))
    server.records.forget()
    INTO[: len(wire)] = b"?" * len(wire)
    assert server.records.decrypt() == (b"", None)

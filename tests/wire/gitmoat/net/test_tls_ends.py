"""One TLS transport: against our own, against Twisted's, against peers that do not behave."""

import select
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from OpenSSL import SSL
from twisted.internet import tcp
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IHandshakeListener
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from gitmoat.identity.tls_options import PinnedClient, PinnedServer, peer_key
from gitmoat.net.transport.tls import Tls
from tests.fakes.hand_loop import HandLoop, close_all, small_pair
from tests.fakes.sidecar_world import public
from tests.fakes.tls import over_tls

pytestmark = pytest.mark.usefixtures("records")

CLIENT, SERVER = bytes([2] * 32), bytes([1] * 32)
LARGE = bytes(range(256)) * 4096


@implementer(IHandshakeListener)
class Notes(Protocol):
    """Keeps what it is told."""

    def __init__(self, greeting: bytes = b"") -> None:
        self.greeting = greeting
        self.heard = b""
        self.pieces = 0
        self.told: list[str] = []

    @property
    def tls(self) -> Any:
        return self.transport

    def connectionMade(self) -> None:
        self.told.append("made")
        self.tls.write(self.greeting)

    def handshakeCompleted(self) -> None:
        self.told.append("shaken")

    def dataReceived(self, data: bytes) -> None:
        assert self.told == ["made", "shaken"]
        self.heard += data
        self.pieces += 1

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.told.append(type(reason.value).__name__)


def a_client(*pins: bytes) -> PinnedClient:
    return PinnedClient(CLIENT, lambda: frozenset(pins or [public(SERVER)]))


def a_server() -> PinnedServer:
    return PinnedServer(SERVER, lambda key: key == public(CLIENT))


Connect = Callable[[HandLoop, Notes, Any, socket.socket], None]


def ours(loop: HandLoop, notes: Notes, creator: Any, sock: socket.socket) -> None:
    made = Tls(loop, sock, notes, creator.connection())
    loop.transports.append(made)
    made.start()


def twisteds(loop: HandLoop, notes: Notes, creator: Any, sock: socket.socket) -> None:
    factory: Factory[Any] = Factory.forProtocol(lambda: notes)
    protocol = over_tls(creator, factory, loop).buildProtocol(None)
    sock.setblocking(False)
    transport: Any = tcp.Connection(sock, protocol, loop)  # type: ignore[arg-type]
    transport.connected, transport.logstr = 1, "test"
    protocol.makeConnection(transport)
    transport.startReading()


@pytest.fixture(autouse=True)
def _sockets() -> Iterator[None]:
    yield
    close_all()


def joined(
    client: Connect = ours, server: Connect = ours, early: bytes = b"", soon: bytes = b""
) -> Any:
    loop, near, far = HandLoop(), Notes(early), Notes(soon)
    one, other = small_pair()
    client(loop, near, a_client(), one)
    server(loop, far, a_server(), other)
    loop.settle()
    return loop, near, far


@pytest.mark.parametrize(("client", "server"), [(ours, ours), (ours, twisteds), (twisteds, ours)])
def test_both_ways_whole_and_in_order(client: Connect, server: Connect) -> None:
    loop, near, far = joined(client, server, b"early ", b"soon ")
    for piece in (LARGE, b"", b"x", LARGE):
        near.tls.write(piece)
    far.tls.write(LARGE)
    loop.settle()
    assert far.heard == b"early " + LARGE + b"x" + LARGE
    assert near.heard == b"soon " + LARGE
    near.tls.loseConnection()
    loop.settle()
    for end, made in ((near, client), (far, server)):
        if made is ours:  # what Twisted makes of a Unix socket's end is not our subject
            assert end.told == ["made", "shaken", ConnectionDone.__name__]
    assert not loop.readers and not loop.writers and loop.getDelayedCalls() == []


def test_records_come_by_the_batch() -> None:
    loop, near, far = joined()
    near.tls.write(LARGE)
    loop.settle()
    assert far.heard == LARGE
    assert far.pieces < len(LARGE) / 16384


def test_both_know_each_other() -> None:
    _, near, far = joined()
    assert peer_key(near.tls) == public(SERVER)
    assert peer_key(far.tls) == public(CLIENT)


def test_server_that_is_not_the_pinned_one_hears_nothing_of_us() -> None:
    loop, near, far = HandLoop(), Notes(b"secret"), Notes()
    one, other = small_pair()
    ours(loop, near, a_client(public(CLIENT)), one)
    ours(loop, far, PinnedServer(SERVER, lambda key: True), other)
    loop.settle()
    assert near.told == ["made", SSL.Error.__name__]
    assert far.told == ["made", SSL.Error.__name__] and far.heard == b""


def test_peer_that_fails_our_own_check_hears_nothing_of_us() -> None:
    loop, near, far = HandLoop(), Notes(b"secret"), Notes()
    one, other = small_pair()
    wrong = ValueError("another name")
    Tls(loop, one, near, a_client().connection(), lambda _: wrong).start()
    ours(loop, far, a_server(), other)
    loop.settle()
    assert near.told == ["made", "ValueError"]
    assert far.told == ["made", ConnectionLost.__name__] and far.heard == b""


def test_end_without_close_notify_is_a_loss() -> None:
    loop, near, far = joined()
    far.tls.write(b"half")
    loop.settle()
    far.tls.detach().close()
    loop.settle()
    assert near.heard == b"half" and near.told[-1] == ConnectionLost.__name__


def test_flipped_bit_ends_the_connection() -> None:
    loop, near, far = joined()
    sock = far.tls.detach()
    sock.send(b"\x17\x03\x03\x00\x20" + bytes(32))
    loop.settle()
    assert near.heard == b"" and near.told[-1] == SSL.Error.__name__


def test_peer_that_never_says_goodbye_is_not_waited_for_for_ever() -> None:
    loop, near, far = joined()
    far.tls.detach()
    near.tls.loseConnection()
    loop.settle()
    assert len(near.told) == 2
    loop.advance(30)
    loop.settle()
    assert near.told[2:] == [ConnectionAborted.__name__]


def test_what_the_peer_says_after_our_goodbye_is_heard() -> None:
    loop, near, far = joined()
    far.tls.hold("us")
    near.tls.loseConnection()
    near.tls.write(b"too late")
    loop.settle()
    far.tls.write(LARGE)
    loop.settle()
    assert near.heard == LARGE and len(near.told) == 2
    far.tls.release("us")
    loop.settle()
    assert far.heard == b"" and far.told[2:] == near.told[2:] == [ConnectionDone.__name__]


def test_peer_that_ends_gets_what_was_written_before() -> None:
    loop, near, far = joined()
    near.tls.hold("us")
    far.tls.write(LARGE)
    near.tls.write(b"")
    near.tls.loseConnection()
    loop.settle()
    assert near.heard == LARGE
    assert far.told[2:] == near.told[2:] == [ConnectionDone.__name__]


def test_the_kernel_of_a_peer_that_does_not_read_hears_of_our_end() -> None:
    loop, near, far = joined()
    far.tls.hold("busy")
    near.tls.write(b"unread")
    near.tls.loseConnection()
    loop.settle()
    assert far.told == ["made", "shaken"] and far.heard == b""
    poll = select.poll()
    poll.register(far.tls.fileno(), select.POLLRDHUP)
    assert poll.poll(0)
    far.tls.release("busy")
    loop.settle()
    assert far.heard == b"unread" and far.told[-1] == near.told[-1] == ConnectionDone.__name__


def test_closing_before_the_handshake_cuts() -> None:
    loop, near = HandLoop(), Notes()
    one, _ = small_pair()
    ours(loop, near, a_client(), one)
    near.tls.loseConnection()
    loop.settle()
    assert near.told == ["made", ConnectionAborted.__name__]

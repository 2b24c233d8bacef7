"""Nothing that a test opened outlives it."""

import socket
from collections.abc import Callable, Iterator

import pytest

from gitmoat.net.transport import openssl
from tests.fakes.hand_loop import close_all, small_pair, tcp_pair


@pytest.fixture(autouse=True)
def _sockets_are_closed() -> Iterator[None]:
    yield
    close_all()


@pytest.fixture(params=[small_pair, tcp_pair])
def pair(request: pytest.FixtureRequest) -> Callable[[], tuple[socket.socket, socket.socket]]:
    """How two ends are connected: Unix sockets that take little, or TCP."""
    kind: Callable[[], tuple[socket.socket, socket.socket]] = request.param
    return kind


@pytest.fixture(params=[openssl.FastRecords, openssl.PortableRecords])
def records(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> type[openssl.FastRecords] | type[openssl.PortableRecords]:
    """What handles the records of every TLS end that is made meanwhile."""
    kind: type[openssl.FastRecords] | type[openssl.PortableRecords] = request.param
    monkeypatch.setattr(openssl, "records_of", kind)
    return kind

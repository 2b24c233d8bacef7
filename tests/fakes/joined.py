"""A relay between a raw client and a raw upstream."""

import socket
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from gitmoat.net.http.ends import Incoming, Timeouts
from gitmoat.net.relay import Outcome, Refuse, Relay
from gitmoat.wire.http.heads import (
    Headers,
    Length,
    NoBody,
    ResponseHead,
    format_request,
    framing_headers,
)
from tests.fakes.hand_loop import HandLoop, small_pair
from tests.fakes.http_ends import Dialled, Served

CONSTANT = ((b"Content-Type", b"application/x-test"),)
Pair = Callable[[], tuple[socket.socket, socket.socket]]


def pass_on(head: ResponseHead) -> tuple[int, Headers] | Refuse:
    if head.status >= 300:
        return Refuse(detail=f"upstream said {head.status}")
    return head.status, CONSTANT


class Joined:
    """One server connection whose requests are relayed to one client connection."""

    def __init__(
        self, pair: Pair = small_pair, timeouts: Timeouts | None = None, **options: Any
    ) -> None:
        self.loop = HandLoop()
        self.options = options
        self.served = Served(self.relay_it, pair, timeouts, self.loop)
        self.dialled = Dialled(pair, timeouts, self.loop)
        self.client = self.served.client
        self.upstream = self.dialled.server
        self.outcomes: list[Outcome] = []
        self.failures: list[Failure] = []
        self.relays: list[Relay] = []

    @property
    def outcome(self) -> Outcome:
        assert len(self.outcomes) == len(self.relays)
        return self.outcomes[-1]

    def relay_it(self, incoming: Incoming) -> None:
        prelude: bytes = self.options.get("prelude", b"")
        framing = incoming.head.framing
        if isinstance(framing, Length):
            framing = Length(framing.octets + len(prelude))
        method = b"GET" if isinstance(framing, NoBody) else b"POST"
        head = format_request(method, b"/up", [(b"Host", b"up"), *framing_headers(framing)])
        options = {"answer": pass_on, **self.options}
        relay = Relay(incoming, self.dialled.connection, head, framing, **options)
        self.relays.append(relay)
        self.done: Deferred[Outcome] = relay.start()
        self.done.addCallbacks(self.outcomes.append, self.failures.append)

"""Asks the system's resolver as the broker does, in a namespace whose DNS server is this process.

A name may come with a session, `1/name`; `@name` is dialled. Prints what was found, in the order of
the answers, and what the server was asked.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from typing import Any

from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.endpoints import HostnameEndpoint
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import react

from broker.upstream.resolving import SystemResolver
from gitmoat.wire.dns import AAAA, NOERROR, NXDOMAIN, A, answer, parse_query
from gitmoat.wire.hostname import HostName

A_RECORDS = {
    "web.example": "203.0.113.5",
    "both.example": "203.0.113.6",
    "git.example": "127.0.0.1",
}
AAAA_RECORDS = {"both.example": "2001:db8::6"}
# What a search list would make of a name that does not exist.
TRAP = {"nowhere.example.corp.example": "203.0.113.66"}
HEARD: list[str] = []
_PATIENCE = 25.0  # less than resolv.conf's
OTHERS = threading.Event()  # something was found whose server is not slow


def serve(server: socket.socket) -> None:
    """A slow server is one that answers after all others."""

    def later(data: bytes, client: object) -> None:
        OTHERS.wait(_PATIENCE)
        server.sendto(_reply(data), client)  # type: ignore[call-overload]

    while True:
        data, client = server.recvfrom(512)
        if b"slow" in data:
            threading.Thread(target=later, args=(data, client), daemon=True).start()
        else:
            server.sendto(_reply(data), client)


def _reply(data: bytes) -> bytes:
    asked = parse_query(data)
    name = asked.name.decode()
    HEARD.append(name)
    if asked.type == AAAA and name in AAAA_RECORDS:
        octets = socket.inet_pton(socket.AF_INET6, AAAA_RECORDS[name])
        whole = answer(asked, NOERROR, octets, 5)
        return whole.replace(b"\xc0\x0c\0\1", b"\xc0\x0c\0\x1c")
    known = A_RECORDS | TRAP
    if asked.type == A and name in known:
        return answer(asked, NOERROR, socket.inet_aton(known[name]), 5)
    return answer(asked, NOERROR if name in known else NXDOMAIN)


def main(reactor: Any, *names: str) -> Deferred[Any]:
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 53))  # before anybody asks
    threading.Thread(target=serve, args=(server,), daemon=True).start()
    found: list[tuple[str, list[str]]] = []
    resolver = SystemResolver(reactor)

    def ask(name: str) -> Deferred[None]:
        def keep(addresses: list[Any]) -> None:
            found.append((name, [str(each) for each in addresses]))
            if "slow" not in name:
                OTHERS.set()

        session, _, host = name.rpartition("/")
        return resolver.resolve(HostName(host), session).addCallback(keep)

    def dial(name: str) -> Deferred[None]:
        """As git servers are dialled: by name, and here in vain."""
        endpoint: Any = HostnameEndpoint(reactor, name, 9, timeout=60)
        dialled: Deferred[Any] = endpoint.connect(Factory.forProtocol(Protocol))

        def in_vain(_: object) -> None:
            found.append(("dialled", [name]))
            OTHERS.set()

        return dialled.addErrback(in_vain)

    def show(_: object) -> None:
        print(json.dumps({"found": found, "heard": HEARD}))

    asked = [dial(name[1:]) if name.startswith("@") else ask(name) for name in names]
    return DeferredList(asked, fireOnOneErrback=True).addCallback(show)


if __name__ == "__main__":
    react(main, sys.argv[1:])

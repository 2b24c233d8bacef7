"""python -m bench.one_hop PORT: what one of our hops does with a tunnel, and nothing else.

Made of the product's own parts; it decides nothing and resolves nothing. Gitmoat has two hops with
TLS between them: this one is here to be compared with programs that are one.
"""

from __future__ import annotations

import socket
import sys
from ipaddress import ip_address
from typing import Any

from twisted.internet.defer import Deferred

from gitmoat.net.http.incoming import Incoming
from gitmoat.net.http.server_end import ServerConnection
from gitmoat.net.transport.accepting import Acceptor
from gitmoat.net.transport.descriptor import Descriptor
from gitmoat.net.transport.dialling import connect
from gitmoat.net.tunnel_end import TunnelConnection
from gitmoat.net.tunnel_relay import Tunnel
from gitmoat.wire.http.formatting import format_response
from gitmoat.wire.http.proxying import ProxyReader

_YES = format_response(200, (), b"Connection established")
_SECONDS = 60.0


def serve(reactor: Any, listener: socket.socket) -> None:
    async def tunnel(incoming: Incoming) -> None:
        host, _, port = incoming.head.target.decode("ascii").rpartition(":")
        sock = await connect(reactor, [ip_address(host)], int(port), _SECONDS)
        far = TunnelConnection()
        Descriptor(reactor, sock, far).start()
        Tunnel(reactor, incoming.tunnel(_YES), far.end, _SECONDS).start()

    def asked(incoming: Incoming) -> None:
        Deferred.fromCoroutine(tunnel(incoming)).addErrback(lambda _: incoming.abort())

    def accepted(sock: socket.socket) -> None:
        connection = ServerConnection(reactor, asked, on_lost=acceptor.ended, reader=ProxyReader)
        Descriptor(reactor, sock, connection).start()

    acceptor = Acceptor(reactor, listener, 64, accepted)
    acceptor.start()


if __name__ == "__main__":
    from twisted.internet import reactor

    from gitmoat.confine.linux import keep_large_blocks

    keep_large_blocks()
    loop: Any = reactor
    serve(loop, socket.create_server(("127.0.0.1", int(sys.argv[1]))))
    loop.run()

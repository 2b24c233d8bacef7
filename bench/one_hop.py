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

from gitwire.formatting import format_response
from gitwire.proxying import ProxyReader
from streams.accepting import Acceptor
from streams.descriptor import Descriptor
from streams.dialling import connect
from streams.incoming import Incoming
from streams.raw import TunnelConnection
from streams.server import ServerConnection
from streams.tunnel import Tunnel

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

    from confine.linux import keep_large_blocks

    keep_large_blocks()
    loop: Any = reactor
    serve(loop, socket.create_server(("127.0.0.1", int(sys.argv[1]))))
    loop.run()

"""What both ends of an HTTP/1.1 connection have in common: an inbox, and a way out of HTTP."""

from collections import deque
from typing import cast

from twisted.internet.interfaces import IHalfCloseableProtocol, IHandshakeListener
from twisted.internet.protocol import Protocol
from zope.interface import implementer

from gitmoat.net.transport.descriptor import Descriptor
from gitmoat.net.tunnel_end import TunnelEnd


@implementer(IHalfCloseableProtocol, IHandshakeListener)
class Connection(Protocol):
    """What has come is used step by step, as far as somebody takes it now.

    Once it is an end of a tunnel, `TunnelEnd` hears all that the transport tells.
    """

    def __init__(self) -> None:
        self.inbox: deque[bytes] = deque()
        self._tunnel_end: TunnelEnd | None = None
        self._pumping = False

    @property
    def blocked(self) -> bool:
        return self._transport.blocked

    def pump(self) -> None:
        """Not from inside itself: a step may lead to what pumps."""
        if self._pumping:
            return
        self._pumping = True
        try:
            while self.inbox and self._step():
                pass
        finally:
            self._pumping = False
        self._pumped()

    # What each end does in its own way

    def _step(self) -> bool:
        """Use one piece of the inbox; whether to go on with the next one."""
        raise NotImplementedError

    def _pumped(self) -> None:
        """What is left in the inbox has to wait."""
        raise NotImplementedError

    def _peer_ended(self) -> None:
        raise NotImplementedError

    def _flowed(self) -> None:
        """`blocked` has changed."""
        raise NotImplementedError

    # Twisted's callbacks

    def connectionMade(self) -> None:
        self._transport = cast(Descriptor, self.transport)
        self._transport.on_flow = self._flow

    def dataReceived(self, data: bytes) -> None:
        if self._tunnel_end is not None:
            self._tunnel_end.received(data)
            return
        self.inbox.append(data)
        self.pump()

    def readConnectionLost(self) -> None:
        if self._tunnel_end is not None:
            self._tunnel_end.has_ended()
        else:
            self._peer_ended()

    def writeConnectionLost(self) -> None:
        """All we had to say has been sent; what the peer still sends is read."""
        if self._tunnel_end is not None:
            self._tunnel_end.all_sent()

    def handshakeCompleted(self) -> None:
        raise NotImplementedError

    def _flow(self) -> None:
        if self._tunnel_end is not None:
            self._tunnel_end.flowed()
        else:
            self._flowed()

    def _switch(self) -> TunnelEnd:
        """No HTTP is spoken here any more."""
        self._transport.release_all()
        self._tunnel_end = end = TunnelEnd(self._transport)
        early = b"".join(self.inbox)
        self.inbox.clear()
        if early:
            end.received(early)
        return end

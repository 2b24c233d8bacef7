"""Peers that leave while nobody reads them, because what they sent has to wait.

The loop asks the kernel only about what somebody wants to read or to write. This asks about the
peer's end alone: EPOLLRDHUP comes also behind octets that nobody has read yet (epoll_ctl(2)).
"""

import select
from collections.abc import Callable
from contextlib import suppress

from attrs import define
from twisted.internet.interfaces import IReadDescriptor
from twisted.python.failure import Failure
from zope.interface import implementer

from gitmoat.net.transport.seqpacket import Reactor


@define(eq=False)
class Watch:
    """One look-out for the end of one peer."""

    descriptor: int
    left: Callable[[], None]


@implementer(IReadDescriptor)
class Hangups:
    """An epoll of its own, which the loop polls as one more descriptor."""

    def __init__(self, loop: Reactor) -> None:
        self._loop = loop
        self._poll = select.epoll()
        self._watches: dict[int, Watch] = {}
        loop.addReader(self)

    def watch(self, descriptor: int, left: Callable[[], None]) -> Watch:
        """`left` is called once, a turn after the peer has closed or reset; `forget` what is
        returned, which may then come too late to keep it from being called.
        """
        watch = self._watches[descriptor] = Watch(descriptor, left)
        # The next request of a connection begins inside the end of the one before it.
        with suppress(FileExistsError):
            self._poll.register(descriptor, select.EPOLLRDHUP)
        return watch

    def forget(self, watch: Watch) -> None:
        """Its number may be another connection's by now: then that one is left alone."""
        if self._watches.get(watch.descriptor) is watch:
            del self._watches[watch.descriptor]
            with suppress(OSError):  # the kernel forgets what was closed
                self._poll.unregister(watch.descriptor)

    def close(self) -> None:
        self._loop.removeReader(self)
        self._watches.clear()
        self._poll.close()

    # What the reactor asks

    def fileno(self) -> int:
        return self._poll.fileno()

    def logPrefix(self) -> str:
        return "hangups"

    def doRead(self) -> None:
        for descriptor, _ in self._poll.poll(0):
            watch = self._watches.get(descriptor)
            if watch is not None:
                self.forget(watch)
                # Not from here: the loop drops a reader that raises, and with it all the others.
                self._loop.callLater(0, watch.left)

    def connectionLost(self, reason: Failure) -> None:
        """Of the loop's end; there is nothing to tell."""

"""Twisted's loop over epoll(7), as both hops run it."""

import time
from functools import partial

from twisted.internet.epollreactor import EPollReactor


class Epoll(EPollReactor):
    """Twisted asks the wall clock, a step of which would hold up or fire timers. CLOCK_BOOTTIME is
    never set, and counts while the host sleeps (clock_gettime(2)): a token's ten minutes end then,
    too."""

    seconds = staticmethod(partial(time.clock_gettime, time.CLOCK_BOOTTIME))

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

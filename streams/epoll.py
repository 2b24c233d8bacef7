"""Twisted's loop over epoll(7), as both hops run it."""

import time
from functools import partial

from twisted.internet.epollreactor import EPollReactor


class Epoll(EPollReactor):
    """Twisted asks the wall clock; a step of it must not hold up or fire timers. While the host
    sleeps this one goes on: a token's ten minutes are over then, too."""

    seconds = staticmethod(partial(time.clock_gettime, time.CLOCK_BOOTTIME))

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

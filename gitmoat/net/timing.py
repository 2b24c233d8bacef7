"""Time, as the connections use it."""

from collections.abc import Callable
from typing import Any, Protocol

from attrs import frozen


class Clock(Protocol):
    """What we ask of a reactor's clock; `task.Clock` of Twisted is one too."""

    def seconds(self) -> float: ...

    def callLater(
        self, delay: float, call: Callable[..., object], /, *args: Any, **named: Any
    ) -> Any: ...


class Timer(Protocol):
    def cancel(self) -> object: ...

    def active(self) -> object: ...


def cancel(timer: Timer | None) -> None:
    """Cancel a timer that may have fired, or may never have been set."""
    if timer is not None and timer.active():
        timer.cancel()


@frozen
class Timeouts:
    """Seconds. `idle` is counted from the last byte that moved, in either direction."""

    head: float = 10.0  # TLS handshake; a request head, from its first byte to its last
    idle: float = 60.0  # inside an exchange, also while back-pressure holds it
    wait: float = 60.0  # for the first byte of the next request
    drain: float = 300.0  # for the rest of a request that was answered early
    linger: float = 5.0  # for the peer to close after we did
    grace: float = 5.0  # longer than `idle`, so that the peer that is to answer gives up first


class Timeout:
    """One timer that is set, moved and cleared; it expires once.

    It is moved for every piece of a body, and several times in every request. So the call under
    way stays while it is early enough, and is made again for what is left; one that is too late
    is replaced, because a reactor looks through all its timers to move one forward.
    """

    def __init__(self, clock: Clock, expired: Callable[[], None]) -> None:
        self._clock = clock
        self._expired = expired
        self._call: Any = None
        self._called = self._due = 0.0

    def set(self, seconds: float) -> None:
        self._due = due = self._clock.seconds() + seconds
        if self._call is None or due < self._called:
            self.clear()
            self._call = self._clock.callLater(seconds, self._fired)
            self._called = due

    def clear(self) -> None:
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _fired(self) -> None:
        self._call = None
        left = self._due - self._clock.seconds()
        if left > 0:
            self.set(left)
        else:
            self._expired()

"""Waiting for something only so long."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

_log = Logger()


def within(reactor: Any, seconds: float, work: Deferred[Any]) -> Deferred[bool]:
    """Whether it was done by then. It goes on in any case; what becomes of it later is logged."""
    done: Deferred[bool] = Deferred()
    timer = reactor.callLater(seconds, done.callback, False)

    def ended(result: Any) -> Any:
        if timer.active():
            timer.cancel()
            done.callback(True)
        return result

    work.addBoth(ended)
    work.addErrback(lambda failure: _log.failure("work in the background failed", failure))
    return done


def aside(work: Any) -> None:
    """A coroutine that nobody waits for."""
    done = Deferred.fromCoroutine(work)
    done.addErrback(lambda failure: _log.failure("work in the background failed", failure))

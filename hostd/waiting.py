"""Waiting for something only so long, for all of several, or for nothing."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import Any

from twisted.internet.defer import Deferred, DeferredList
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


async def all_done(work: Iterable[Coroutine[Deferred[Any], Any, None]]) -> None:
    """Beside each other, and each to its end; then the first problem is raised."""
    begun = [Deferred.fromCoroutine(one) for one in work]
    results: list[tuple[bool, Any]] = await DeferredList(begun, consumeErrors=True)
    problems = [result for well, result in results if not well]
    for problem in problems[1:]:
        _log.failure("so did another one", problem)
    if problems:
        problems[0].raiseException()


def in_background(work: Any) -> None:
    """A coroutine that nobody waits for."""
    done = Deferred.fromCoroutine(work)
    done.addErrback(lambda failure: _log.failure("work in the background failed", failure))

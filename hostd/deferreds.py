"""Waits for a Deferred for a limited time, or for several, or not at all."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import Any

from twisted.internet.defer import Deferred, DeferredList
from twisted.logger import Logger

_log = Logger()


def within(reactor: Any, seconds: float, work: Deferred[Any]) -> Deferred[bool]:
    """Whether it is done within so many seconds. It goes on in any case; a later failure is
    logged."""
    done: Deferred[bool] = Deferred()
    timer = reactor.callLater(seconds, done.callback, False)

    def ended(result: Any) -> Any:
        if cancel(timer):
            done.callback(True)
        return result

    work.addBoth(ended)
    work.addErrback(lambda failure: _log.failure("work in the background failed", failure))
    return done


def cancel(timer: Any) -> bool:
    """Whether it had not fired yet."""
    active: bool = timer.active()
    if active:
        timer.cancel()
    return active


async def all_done(work: Iterable[Coroutine[Deferred[Any], Any, None]]) -> None:
    """Runs all at the same time and each to its end; then raises the first failure."""
    begun = [Deferred.fromCoroutine(one) for one in work]
    results: list[tuple[bool, Any]] = await DeferredList(begun, consumeErrors=True)
    problems = [result for well, result in results if not well]
    for problem in problems[1:]:
        _log.failure("work beside other work failed", problem)
    if problems:
        problems[0].raiseException()


def in_background(work: Any) -> None:
    """Runs a coroutine that nothing waits for."""
    done = Deferred.fromCoroutine(work)
    done.addErrback(lambda failure: _log.failure("work in the background failed", failure))

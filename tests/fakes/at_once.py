"""What is awaited, taken at once: for what waits for nothing, in tests without a reactor."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Coroutine
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure


def at_once(awaited: Any) -> Any:
    done = Deferred.fromCoroutine(awaited) if isinstance(awaited, Coroutine) else awaited
    found: list[Any] = []
    done.addBoth(found.append)
    assert found, "it waits for something"
    if isinstance(found[0], Failure):
        found[0].raiseException()
    return found[0]


class AtOnce:
    """The same object, whose calls are over when they return."""

    def __init__(self, of: Any) -> None:
        object.__setattr__(self, "_of", of)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._of, name)
        return functools.partial(self._call, found) if inspect.isroutine(found) else found

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._of, name, value)

    def _call(self, call: Any, *given: Any, **named: Any) -> Any:
        result = call(*given, **named)
        return at_once(result) if isinstance(result, Deferred | Coroutine) else result

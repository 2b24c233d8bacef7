"""Tests that are coroutines on the real reactor."""

from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

import pytest_twisted

P = ParamSpec("P")


def on_reactor(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """pytest-twisted's decorator, with a type."""
    wrapped: Any = pytest_twisted.ensureDeferred(test)
    typed: Callable[P, None] = wrapped
    return typed

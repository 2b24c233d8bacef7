"""Nothing that a test opened outlives it."""

from collections.abc import Iterator

import pytest

from tests.fakes.hand_loop import close_all


@pytest.fixture(autouse=True)
def _sockets_are_closed() -> Iterator[None]:
    yield
    close_all()

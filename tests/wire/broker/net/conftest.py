"""A broker for each test anew, whose every wait is the test's."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import pytest_twisted
from twisted.internet.defer import ensureDeferred

from tests.wire.broker.net.held_broker import HeldBroker


@pytest.fixture
def held(tmp_path: Path) -> Iterator[HeldBroker]:
    from twisted.internet import reactor

    broker = HeldBroker(reactor, tmp_path)
    pytest_twisted.blockon(ensureDeferred(broker.open()))
    yield broker
    pytest_twisted.blockon(ensureDeferred(broker.close()))

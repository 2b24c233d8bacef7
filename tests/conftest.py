"""Settings for every test."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.waiting import ending_what_it_began

# A loaded machine must not fail a property for being slow: times are measured in bench/.
settings.register_profile(
    "house", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("house")

# Started by a shell in the background or by nohup, all we start would ignore what tests send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def _ended_with_the_suite() -> Iterator[None]:
    """Processes that fixtures of a module or of the whole suite began."""
    with ending_what_it_began():
        yield


@pytest.fixture(autouse=True)
def _ended_with_the_test(_ended_with_the_suite: None) -> Iterator[None]:
    """The first of a test's fixtures, and the last to go."""
    with ending_what_it_began():
        yield

"""Settings for every test."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.waiting import ending_what_it_began

# A loaded machine must not fail a property for being slow: times are measured in bench/.
settings.register_profile(
    "house", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
# Of `make unit`; tests.fakes.examples scales those that say a number themselves.
settings.register_profile("quick", settings.get_profile("house"), max_examples=15)
settings.load_profile("house")

# Whose tests start a Gitmoat, or look at what only root sees. A test elsewhere is marked by itself.
NEED_ROOT = ("adversary", "docker", "faults", "fidelity", "live", "soak", "upgrade")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folders = tuple(Path(__file__).with_name(name) for name in NEED_ROOT)
    for item in items:
        if any(item.path.is_relative_to(folder) for folder in folders):
            item.add_marker(pytest.mark.root)


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

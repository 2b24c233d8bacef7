"""Settings for every test."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

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


# Suites of many minutes: `make test-long` runs them, `make test` does not.
_LONG = [Path(__file__).parent / name for name in ("adversary", "faults", "fidelity")]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(item.path.is_relative_to(directory) for directory in _LONG):
            item.add_marker(pytest.mark.long)

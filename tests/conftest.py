"""Settings for every test."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A loaded machine must not fail a property for being slow: times are measured in bench/.
settings.register_profile(
    "house", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("house")

"""Settings for every test."""

from __future__ import annotations

import signal

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

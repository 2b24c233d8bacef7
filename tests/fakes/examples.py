"""How many examples a property takes: so many in `make test`, a part of them in `make unit`."""

from __future__ import annotations

from hypothesis import settings

_WHOLE = 100  # what Hypothesis takes where a profile does not say it


def examples(whole: int) -> int:
    """The number where the profile is the whole suite's; in proportion where it is another."""
    return max(1, whole * settings().max_examples // _WHOLE)

"""A short storm; `make soak` runs a long one."""

from __future__ import annotations

import pytest

from tests.soak.run import soak

pytestmark = pytest.mark.live


def test_a_short_storm_breaks_no_invariant_and_leaves_nothing() -> None:
    result = soak(seed=7, seconds=8, sandboxes=4)
    assert result.steps >= 3, result.lines()

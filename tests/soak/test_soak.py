"""A short storm; `make soak` runs a long one."""

from __future__ import annotations

from tests.soak.run import soak


def test_a_short_storm_breaks_no_invariant_and_leaves_nothing() -> None:
    """By its steps: how many a machine takes in a time is up to it."""
    assert soak(seed=7, seconds=0, sandboxes=4, least=8).steps == 8

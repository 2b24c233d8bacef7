"""A short storm; `make soak` runs a long one. What it looks for is found where it is planted."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from gitmoat.paths import Paths
from tests.soak.run import soak
from tests.soak.watch import Watch
from tests.stage.gitmoat import Gitmoat

SECRET = "a-password-of-the-test"


def test_a_short_storm_breaks_no_invariant_and_leaves_nothing() -> None:
    """By its steps: how many a machine takes in a time is up to it."""
    result = soak(seed=7, seconds=0, sandboxes=4, least=8)
    assert result.steps == 8 and result.most > 1
    assert result.actions["create"] > 1 and result.actions["controls measured"] > 0
    assert result.records > 0 and result.searched > 0


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    found = Paths(tmp_path)
    found.log_dir.mkdir(parents=True)
    for journal in (found.broker_audit, found.hostd_audit):
        journal.parent.mkdir(parents=True, exist_ok=True)
        journal.touch()
    return found


@pytest.fixture
def watch(paths: Paths) -> Watch:
    return Watch(cast(Gitmoat, SimpleNamespace(public=SECRET, paths=paths)))


def test_nothing_is_found_where_nothing_is_wrong(watch: Watch) -> None:
    watch.look("fine", "exec")
    watch.check()


def test_a_secret_in_what_is_printed_is_found(watch: Watch) -> None:
    with pytest.raises(AssertionError):
        watch.look(f"remote: {SECRET}", "exec")


def test_a_secret_in_a_log_is_found(watch: Watch, paths: Paths) -> None:
    (paths.log_dir / "broker.log").write_text(f"dialling with {SECRET}\n")
    with pytest.raises(AssertionError):
        watch.check()


def test_a_ref_that_changed_without_a_record_is_found(watch: Watch) -> None:
    watch.need_push("refs/heads/main", "a" * 40)
    with pytest.raises(AssertionError, match="not recorded"):
        watch.check()

"""Whose uids a new sandbox gets: nobody's."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from hostd.failures import Failed
from hostd.sandbox.uids import UidRange, check_subordinate, free_index, next_index, running_uids

RANGE = UidRange(2_000_000_000, 300)


def test_a_uid_with_a_name_on_this_host_is_passed_over() -> None:
    """From 1 upwards every Debian has names."""
    low = UidRange(1, 3000)
    uids = low.at(next_index(low, -1, set()))
    named = {entry.pw_uid for entry in pwd.getpwall()}
    assert 1 in named
    assert not named & {uids.sidecar, uids.helper, uids.untrusted}


def test_every_running_process_is_looked_at_but_those_that_are_ours() -> None:
    assert os.getuid() in running_uids()
    everybody = range(1 << 22)
    assert running_uids(everybody) == set()
    assert free_index(RANGE, 7, {8}, everybody) == 9


@pytest.mark.parametrize(
    ("uid", "index"),
    [
        (1_999_999_999, None),
        (2_000_000_000, 0),
        (2_000_000_002, 0),
        (2_000_000_003, 1),
        (2_000_000_299, 99),
        (2_000_000_300, None),
    ],
)
def test_a_uid_belongs_to_one_sandbox(uid: int, index: int | None) -> None:
    assert RANGE.index_of(uid) == index


@pytest.mark.parametrize(
    "line",
    [
        "bob:2000000000:65536",
        "bob:1999999000:1001",
        "bob:2000000299:1",
        "bob:1000000000:2000000000",
    ],
)
def test_a_range_that_was_given_to_a_user_is_refused_with_his_name(
    line: str, tmp_path: Path
) -> None:
    file = tmp_path / "subuid"
    file.write_text(f"# comment\n\nalice:100000:65536\n{line}\n")
    with pytest.raises(Failed) as refused:
        check_subordinate(RANGE, [file])
    assert refused.value.code == "N104"
    assert "gives to bob" in refused.value.what
    assert "2000000000 to 2000000299 here" in refused.value.why


@pytest.mark.parametrize(
    "text",
    ["", "alice:100000:65536\n", "bob:1999999000:1000\nbob:2000000300:10\n", "nonsense\n:\n"],
)
def test_ranges_beside_ours_are_no_obstacle(text: str, tmp_path: Path) -> None:
    file = tmp_path / "subuid"
    file.write_text(text)
    check_subordinate(RANGE, [file, tmp_path / "missing"])

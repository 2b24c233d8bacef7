"""Many files, one chain; old ones go, and the chain says so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitmoat.audit.chain import JournalBroken, Verified, kept_head, read_events, verify_journal
from gitmoat.audit.events import ConfigLoaded, SessionRevoked
from gitmoat.audit.journal import Journal, Sizes, open_journal
from tests.fakes.examples import examples

EVENT = SessionRevoked(session="s-1", reason="asked")
SMALL = Sizes(segment=1000, keep=1000, reserve=4096)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.ndjson"


@contextmanager
def opened(path: Path, sizes: Sizes = SMALL) -> Iterator[Journal]:
    journal = open_journal(path, "h", lambda: 1e9, sizes=sizes)
    try:
        yield journal
    finally:
        journal.close()


def files(path: Path) -> list[str]:
    return sorted(each.name for each in path.parent.glob("audit*.ndjson"))


def test_a_full_file_is_followed_by_another_in_the_same_chain(path: Path) -> None:
    with opened(path) as journal:
        for _ in range(40):
            journal.record(EVENT)
        head = journal.head()
    assert len(files(path)) > 5
    assert all((path.parent / name).stat().st_size <= 1000 for name in files(path))
    assert [event["seq"] for event in read_events(path)] == list(range(1, 41))
    assert verify_journal(path, head) == Verified(40, head[1])
    assert kept_head(path) == head


def test_after_a_restart_the_chain_goes_on_wherever_the_last_file_ended(path: Path) -> None:
    for number in range(1, 31):
        with opened(path) as journal:
            assert journal.record(EVENT) == number
    assert verify_journal(path).count == 30
    assert len(files(path)) > 3


@pytest.mark.parametrize("moment", ["before the new file is in place", "before anything"])
def test_a_writer_that_died_while_it_changed_files_costs_nothing(path: Path, moment: str) -> None:
    with opened(path) as journal:
        for _ in range(10):
            journal.record(EVENT)
    (path.parent / "audit.ndjson.new").write_bytes(b"")
    if moment == "before the new file is in place":
        first = json.loads(path.read_bytes().splitlines()[0])["seq"]
        path.rename(path.parent / f"audit-{first:012d}.ndjson")
    with opened(path) as journal:
        for _ in range(10):
            journal.record(EVENT)
    assert verify_journal(path).count == 20


def test_old_files_go_and_the_chain_says_which(path: Path) -> None:
    sizes = Sizes(segment=1000, keep=3, reserve=0)
    with opened(path, sizes) as journal:
        for _ in range(60):
            journal.record(EVENT)
        head = journal.head()
    assert len(files(path)) == 4
    verified = verify_journal(path, head)
    assert verified.first > 1 and verified.first + verified.count - 1 == head[0]
    assert verify_journal(path, (1, "0" * 64)).count == verified.count


def test_a_first_file_that_somebody_else_removed_is_missed(path: Path) -> None:
    with opened(path) as journal:
        for _ in range(40):
            journal.record(EVENT)
    (path.parent / files(path)[0]).unlink()
    with pytest.raises(JournalBroken, match="missing"):
        verify_journal(path)


def test_a_file_in_the_middle_that_is_gone_or_swapped_is_found(path: Path) -> None:
    with opened(path) as journal:
        for _ in range(40):
            journal.record(EVENT)
    names = files(path)
    kept = (path.parent / names[2]).read_bytes()
    (path.parent / names[2]).unlink()
    with pytest.raises(JournalBroken, match="sequence"):
        verify_journal(path)
    (path.parent / names[2]).write_bytes(kept.replace(b"asked", b"asker", 1))
    with pytest.raises(JournalBroken, match="changed"):
        verify_journal(path)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_changed_byte_in_any_file_is_found(data: st.DataObject, tmp_path: Path) -> None:
    path = tmp_path / "audit.ndjson"
    if not path.exists():
        with opened(path) as journal:
            for _ in range(20):
                journal.record(EVENT)
    head = kept_head(path)
    victim = path.parent / data.draw(st.sampled_from(files(path)))
    whole = victim.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    flip = data.draw(st.integers(1, 255))
    try:
        victim.write_bytes(whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])
        with pytest.raises((JournalBroken, UnicodeDecodeError)):
            verify_journal(path, head)
    finally:
        victim.write_bytes(whole)


def test_a_cut_end_is_found_by_the_head_that_was_left(path: Path) -> None:
    with opened(path) as journal:
        for _ in range(5):
            journal.record(EVENT)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    assert verify_journal(path).count == sum(1 for _ in read_events(path))
    with pytest.raises(JournalBroken, match="elsewhere"):
        verify_journal(path, kept_head(path))


def test_a_journal_without_a_reserve_works(path: Path) -> None:
    with opened(path, Sizes(reserve=0)) as journal:
        assert journal.record(ConfigLoaded()) == 1

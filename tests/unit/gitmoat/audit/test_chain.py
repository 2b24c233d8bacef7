"""Verification finds every change to a journal that its head can show."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitmoat.audit.chain import JournalBroken, Verified, read_events, verify_journal
from gitmoat.audit.events import SessionRevoked
from gitmoat.audit.journal import FIRST_PREV, open_journal
from tests.fakes.examples import examples


def journal_of(path: Path, count: int) -> tuple[int, str]:
    journal = open_journal(path, "build-7", lambda: 1_700_000_000.0)
    for number in range(count):
        journal.record(SessionRevoked(session=f"s-{number}", reason="asked"), durable=False)
    head = journal.head()
    journal.close()
    return head


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes, tuple[int, str]]:
    path = tmp_path_factory.mktemp("verify") / "audit.ndjson"
    head = journal_of(path, 5)
    return path, path.read_bytes(), head


Sample = tuple[Path, bytes, tuple[int, str]]


def test_an_untouched_journal_verifies(sample: Sample) -> None:
    path, whole, head = sample
    path.write_bytes(whole)
    assert verify_journal(path) == verify_journal(path, head) == Verified(*head)
    assert [event["session"] for event in read_events(path)] == [f"s-{n}" for n in range(5)]


def test_an_empty_journal_verifies(tmp_path: Path) -> None:
    head = journal_of(tmp_path / "j", 0)
    assert head == (0, FIRST_PREV)
    assert verify_journal(tmp_path / "j", head) == Verified(0, FIRST_PREV)


@settings(max_examples=examples(100), deadline=None)
@given(st.data())
def test_any_changed_byte_is_found(sample: Sample, data: st.DataObject) -> None:
    path, whole, head = sample
    changed = bytearray(whole)
    changed[data.draw(st.integers(0, len(whole) - 2))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(changed)
    with pytest.raises(JournalBroken):
        verify_journal(path, head)


def test_a_removed_swapped_repeated_or_inserted_line_is_found(sample: Sample) -> None:
    path, whole, _ = sample
    a, b, c, d, e = whole.splitlines(keepends=True)
    for lines in ([b, c, d, e], [a, c, d, e], [a, c, b, d, e], [a, b, b, c, d, e], [a, b"{}\n", b]):
        path.write_bytes(b"".join(lines))
        with pytest.raises(JournalBroken):
            verify_journal(path)


def test_a_cut_end_is_found_by_the_head_kept_elsewhere(sample: Sample) -> None:
    path, whole, head = sample
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:3]))
    assert verify_journal(path).count == 3
    with pytest.raises(JournalBroken) as broken:
        verify_journal(path, head)
    assert broken.value.line == 5


def test_a_head_that_is_behind_is_no_fault(sample: Sample, tmp_path: Path) -> None:
    path, whole, _ = sample
    path.write_bytes(whole)
    earlier = journal_of(tmp_path / "j", 3)  # the same events and clock, so the same chain
    assert verify_journal(path, earlier).count == 5


@pytest.mark.parametrize(
    ("tail", "what"),
    [(b'{"v":1', "not finished"), (b"hello\n", "not JSON"), (b"[]\n", "not a JSON object"),
     (b"\n", "not JSON"), (b"[" * 100_000 + b"\n", "not JSON"), (b"{}\n", "version"),
     (b'{"v":1}\n', "sequence"), (b'{"v":1,"seq":6}\n', "changed or removed")],
)  # fmt: skip
def test_the_line_and_the_reason_are_told(sample: Sample, tail: bytes, what: str) -> None:
    path, whole, _ = sample
    path.write_bytes(whole + tail)
    with pytest.raises(JournalBroken, match=what) as broken:
        verify_journal(path)
    assert broken.value.line == 6 and str(broken.value).startswith("line 6: ")

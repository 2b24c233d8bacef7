"""The journal: whole lines, one chain, on disk before it returns, or nothing at all."""

from __future__ import annotations

import errno
import json
import os
import resource
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitmoat.audit.chain import Verified, read_events, verify_journal
from gitmoat.audit.events import DaemonStarted, Event, PushDecision, RefChange, SessionRevoked
from gitmoat.audit.journal import FIRST_PREV, Journal, JournalUnavailable, line_hash, open_journal
from tests.fakes.examples import examples

EVENT = SessionRevoked(session="s-1", reason="asked")


def fixed_now() -> float:
    return 1_700_000_000.25


class Disk:
    """Stands in for fsync: remembers what was on disk, and can fail."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.synced: list[bytes] = []
        self.failing = False

    def __call__(self, fd: int) -> None:
        if self.failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        os.fsync(fd)
        self.synced.append(self.path.read_bytes())


@contextmanager
def opened(
    path: Path, uid: int | None = None, sync: Callable[[int], None] = os.fsync
) -> Iterator[Journal]:
    journal = open_journal(path, "build-7", fixed_now, uid=uid, sync=sync)
    try:
        yield journal
    finally:
        journal.close()


@contextmanager
def file_limit(octets: int) -> Iterator[None]:
    """No file of this process may grow past `octets`: a write is cut short, the next fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (octets, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.ndjson"


def test_a_line_has_the_published_form(path: Path) -> None:
    with opened(path) as journal:
        assert journal.head() == (0, FIRST_PREV)
        assert journal.record(EVENT) == 1
        assert journal.head() == (1, line_hash(path.read_bytes()[:-1]))
    assert path.read_text() == (
        '{"v":1,"ts":"2023-11-14T22:13:20.250Z","seq":1,"host":"build-7",'
        '"event":"session.revoked","session":"s-1","reason":"asked","prev":"' + "0" * 64 + '"}\n'
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_lines_are_chained_and_the_chain_goes_on_after_a_restart(path: Path) -> None:
    for first in (1, 4):
        with opened(path) as journal:
            assert [journal.record(EVENT) for _ in range(3)] == [first, first + 1, first + 2]
            head = journal.head()
    assert verify_journal(path) == Verified(6, head[1])
    lines = path.read_bytes().splitlines()
    assert [json.loads(line)["prev"] for line in lines[1:]] == [line_hash(x) for x in lines[:-1]]


def test_a_durable_record_is_on_disk_before_it_returns(path: Path) -> None:
    disk = Disk(path)
    with opened(path, sync=disk) as journal:
        journal.record(EVENT)
        assert disk.synced == [path.read_bytes()]
        journal.record(EVENT, durable=False)
        assert len(disk.synced) == 1
        journal.record(EVENT)
        assert disk.synced[-1].count(b"\n") == 3


def test_a_failing_disk_refuses_and_leaves_no_trace_then_works_again(path: Path) -> None:
    disk = Disk(path)
    with opened(path, sync=disk) as journal:
        journal.record(EVENT)
        before, head = path.read_bytes(), journal.head()
        disk.failing = True
        for _ in range(3):
            with pytest.raises(JournalUnavailable) as refused:
                journal.record(EVENT)
            assert refused.value.code == "B103"
            assert (path.read_bytes(), journal.head()) == (before, head)
        disk.failing = False
        assert journal.record(EVENT) == 2
    assert verify_journal(path).count == 2


@pytest.mark.parametrize("room", [0, 1, 50, 150])
def test_a_write_cut_short_leaves_no_half_line(path: Path, room: int) -> None:
    with opened(path) as journal:
        journal.record(EVENT)
        before = path.read_bytes()
        with file_limit(len(before) + room), pytest.raises(JournalUnavailable):
            journal.record(EVENT)
        assert path.read_bytes() == before
        assert journal.record(EVENT) == 2
    assert verify_journal(path).count == 2


def push_of(count: int) -> Event:
    changes = tuple(RefChange(f"refs/heads/{n}", "0" * 40, "1" * 40) for n in range(count))
    return PushDecision(
        sandbox="sb", session="s", decision="allow", tier="untrusted", repo="github:acme/app",
        refs=changes,
    )  # fmt: skip


def test_the_largest_push_is_recorded_whole(path: Path) -> None:
    with opened(path) as journal:
        journal.record(push_of(1000))
    with opened(path) as journal:
        journal.record(EVENT)
    assert [len(event.get("refs", [])) for event in read_events(path)] == [1000, 0]


def whole_journal(path: Path) -> bytes:
    with opened(path) as journal:
        for _ in range(3):
            journal.record(EVENT)
    return path.read_bytes()


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_wherever_the_last_write_was_torn_the_chain_goes_on(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("j") / "audit.ndjson"
    whole = whole_journal(path)
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    kept = whole[: whole[:cut].rfind(b"\n") + 1]
    torn = whole[len(kept) : cut]
    with opened(path) as journal:
        journal.record(EVENT)
    events = list(read_events(path))
    assert path.read_bytes().startswith(kept)
    assert len(events) == verify_journal(path).count == kept.count(b"\n") + bool(torn) + 1
    repaired = [event for event in events if event["event"] == "journal.repaired"]
    assert [event["reason"].split(",")[0] for event in repaired] == (
        [f"cut {len(torn)} bytes"] if torn else []
    )


def test_a_tail_of_zeros_left_by_a_crash_is_cut_off(path: Path) -> None:
    whole = whole_journal(path)
    path.write_bytes(whole + bytes(4096))
    with opened(path) as journal:
        assert journal.record(EVENT) == 5
    assert verify_journal(path).count == 5


def test_the_repair_is_owed_until_it_can_be_written(path: Path) -> None:
    whole = whole_journal(path)
    path.write_bytes(whole + b'{"v":1,')
    disk = Disk(path)
    disk.failing = True
    with opened(path, sync=disk) as journal:
        with pytest.raises(JournalUnavailable):
            journal.record(EVENT)
        assert path.read_bytes() == whole
        disk.failing = False
        journal.record(EVENT)
    assert [e["event"] for e in read_events(path)][3:] == ["journal.repaired", "session.revoked"]


@pytest.mark.parametrize(
    "tail", [b"not json\n", b"{}\n", b'{"seq":"9"}\n', b'{"seq":true}\n', b"[1]\n", b"\n"]
)
def test_a_whole_last_line_that_is_damaged_is_not_built_upon(path: Path, tail: bytes) -> None:
    whole = whole_journal(path)
    path.write_bytes(whole + tail)
    with pytest.raises(JournalUnavailable, match="damaged"):
        open_journal(path, "build-7", fixed_now)
    assert path.read_bytes() == whole + tail


def test_megabytes_that_are_no_line_are_not_cut_off(path: Path) -> None:
    path.touch(mode=0o600)
    path.write_bytes(b"x" * (5 * 1024 * 1024))
    with pytest.raises(JournalUnavailable, match="not a line"):
        open_journal(path, "build-7", fixed_now)


def test_a_second_writer_is_refused(path: Path) -> None:
    with opened(path), pytest.raises(JournalUnavailable, match="another process"):
        open_journal(path, "build-7", fixed_now)
    with opened(path) as journal:
        journal.record(EVENT)


@pytest.mark.parametrize("kind", ["symlink", "dangling", "fifo", "directory", "linked"])
def test_something_that_is_not_our_file_is_refused(path: Path, kind: str) -> None:
    target = path.parent / "target"
    match kind:
        case "symlink":
            target.touch(mode=0o600)
            path.symlink_to(target)
        case "dangling":
            path.symlink_to(target)
        case "fifo":
            os.mkfifo(path, 0o600)
        case "directory":
            path.mkdir()
        case _:
            target.touch(mode=0o600)
            os.link(target, path)
    with pytest.raises(JournalUnavailable):
        open_journal(path, "build-7", fixed_now)
    assert kind != "dangling" or not target.exists()


@pytest.mark.root
def test_a_journal_others_can_read_or_own_is_refused(path: Path) -> None:
    whole_journal(path)
    path.chmod(0o640)
    with pytest.raises(JournalUnavailable, match="0600"):
        open_journal(path, "build-7", fixed_now)
    path.chmod(0o600)
    os.chown(path, 61003, -1)
    with pytest.raises(JournalUnavailable, match="61003"):
        open_journal(path, "build-7", fixed_now)


@pytest.mark.root
def test_root_can_open_the_journal_of_the_broker_before_it_becomes_the_broker(path: Path) -> None:
    for _ in range(2):
        with opened(path, uid=61005) as journal:
            journal.record(DaemonStarted(name="broker"))
    assert path.stat().st_uid == 61005


def test_a_missing_directory_is_an_error_with_a_reason(tmp_path: Path) -> None:
    with pytest.raises(JournalUnavailable, match="No such file"):
        open_journal(tmp_path / "none" / "audit.ndjson", "build-7", fixed_now)


def replace_by_symlink(path: Path) -> None:
    path.rename(path.parent / "old")
    path.symlink_to(path.parent / "old")


def replace_by_file(path: Path) -> None:
    path.rename(path.parent / "old")
    path.touch(mode=0o600)


@pytest.mark.parametrize("harm", [Path.unlink, replace_by_symlink, replace_by_file])
def test_a_journal_that_was_moved_away_refuses_until_it_is_back(
    path: Path, harm: Callable[[Path], None]
) -> None:
    with opened(path) as journal:
        journal.record(EVENT)
        os.link(path, path.parent / "kept")
        harm(path)
        with pytest.raises(JournalUnavailable):
            journal.record(EVENT)
        path.unlink(missing_ok=True)
        (path.parent / "kept").rename(path)
        assert journal.record(EVENT) == 2
    assert verify_journal(path).count == 2


@pytest.mark.parametrize("change", [b"", b'{"forged":1}\n'])
def test_a_journal_that_somebody_else_changed_is_not_built_upon(path: Path, change: bytes) -> None:
    with opened(path) as journal:
        journal.record(EVENT)
        with path.open("r+b") as other:
            other.seek(0, os.SEEK_END) if change else other.truncate(5)
            other.write(change)
        with pytest.raises(JournalUnavailable, match="somebody else"):
            journal.record(EVENT)


def test_no_descriptor_is_left_behind(path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with opened(path):
        for _ in range(3):
            with pytest.raises(JournalUnavailable):
                open_journal(path, "build-7", fixed_now)
    path.write_bytes(b"damaged\n")
    for where in (path, path.parent / "none" / "x", path.parent):
        with pytest.raises(JournalUnavailable):
            open_journal(where, "build-7", fixed_now)
    assert len(os.listdir("/proc/self/fd")) == before

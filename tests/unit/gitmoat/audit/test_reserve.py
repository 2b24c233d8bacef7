"""On a full disk: git, grants and revocations are recorded, each within its part; no more is."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitmoat.audit.chain import read_events, verify_journal
from gitmoat.audit.events import (
    AdminOperation,
    CredentialStored,
    Decision,
    EgressDecision,
    Event,
    GitDecision,
    GitOutcome,
    GrantRegistered,
    PushDecision,
    RefChange,
    SandboxRemoved,
    SandboxStopped,
    SessionRevoked,
)
from gitmoat.audit.journal import Journal, JournalUnavailable, Sizes, open_journal
from gitmoat.audit.reserve import OWN, SHARES, SIZE, Reserve, allocate

REVOKED = SessionRevoked(session="s-1", reason="asked")
DENIAL = EgressDecision(
    sandbox="sb1", session="s", decision="deny", op="tunnel", to="h:443", code="E101"
)


HELPER = AdminOperation(op="credential helper", decision="allow", peer_uid=1000, reason="gh")


def asked(sandbox: str, decision: Decision = "allow", op: str = "fetch") -> GitDecision:
    return GitDecision(
        sandbox=sandbox, session="s", decision=decision, op=op, tier="untrusted", repo="up:a/b"
    )


def outcome(sandbox: str) -> GitOutcome:
    return GitOutcome(
        sandbox=sandbox, session="s", op="fetch", repo="up:a", bytes_up=1, bytes_down=1, ms=1
    )


def push(sandbox: str, refs: int = 1) -> PushDecision:
    changes = tuple(RefChange(f"refs/heads/{n}", "0" * 40, "1" * 40) for n in range(refs))
    return PushDecision(
        sandbox=sandbox, session="s", decision="allow", tier="helper", repo="up:a/b", refs=changes
    )


class Disk:
    """Stands in for fallocate(2): when it is full, what was taken before stays."""

    def __init__(self) -> None:
        self.full = False

    def __call__(self, fd: int, start: int, length: int) -> None:
        if self.full and start + length > os.fstat(fd).st_blocks * 512:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        allocate(fd, start, length)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.ndjson"


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def journal(path: Path, disk: Disk) -> Iterator[Journal]:
    made = on(path, disk)
    yield made
    made.close()


def on(path: Path, disk: Disk) -> Journal:
    made = open_journal(path, "h", lambda: 1e9, sizes=Sizes(reserve=SIZE))
    made._reserve._allocate = disk
    return made


def use_up_what_was_taken_ahead(journal: Journal) -> None:
    with pytest.raises(JournalUnavailable, match="disk is full"):
        for _ in range(5000):
            journal.record(DENIAL, durable=False)


def fits(journal: Journal, event: Event) -> bool:
    try:
        journal.record(event, durable=False)
    except JournalUnavailable:
        return False
    return True


def test_everything_that_an_allowed_push_or_fetch_needs_is_recorded(
    journal: Journal, disk: Disk
) -> None:
    disk.full = True
    use_up_what_was_taken_ahead(journal)
    needed: list[Event] = [
        asked("sb1", op="refs receive-pack"), outcome("sb1"), push("sb1"), outcome("sb1"),
        asked("sb1", op="refs upload-pack"), asked("sb1"), outcome("sb1"),
        GrantRegistered(sandbox="sb2", session="t"), REVOKED, HELPER,
        SandboxStopped(sandbox="sb2", reason="watchdog"), SandboxRemoved(sandbox="sb2"),
        AdminOperation(op="git push", decision="allow", peer_uid=0, sandbox="sb1"),
        AdminOperation(op="cred-rm", decision="allow", peer_uid=0),
    ]  # fmt: skip
    assert [fits(journal, each) for each in needed] == [True] * len(needed)


def test_runs_of_the_owners_helper_leave_what_is_for_the_others(
    journal: Journal, disk: Disk
) -> None:
    disk.full = True
    use_up_what_was_taken_ahead(journal)
    with pytest.raises(JournalUnavailable, match="its share"):
        for _ in range(30000):
            journal.record(HELPER, durable=False)
    assert fits(journal, push("sb1"))
    assert fits(journal, GrantRegistered(sandbox="sb2", session="t")) and fits(journal, REVOKED)


@pytest.mark.parametrize(
    "event",
    [
        DENIAL, asked("sb1", "deny"), CredentialStored(name="c"),
        AdminOperation(op="verify", decision="allow", peer_uid=0, sandbox="sb1"),
    ],
    ids=["egress", "refusal", "credential", "verify"],
)  # fmt: skip
def test_nothing_else_gets_what_is_kept(journal: Journal, disk: Disk, event: Event) -> None:
    disk.full = True
    use_up_what_was_taken_ahead(journal)
    for _ in range(3):
        assert not fits(journal, event)
    assert fits(journal, REVOKED)


def test_a_sandbox_that_fetches_in_a_loop_uses_its_own_share_only(
    journal: Journal, disk: Disk, path: Path
) -> None:
    disk.full = True
    use_up_what_was_taken_ahead(journal)
    before = path.stat().st_size
    served = sum(fits(journal, asked("hostile")) for _ in range(10_000))
    assert 20 < served < 300
    assert path.stat().st_size - before <= SIZE // SHARES
    with pytest.raises(JournalUnavailable, match="this sandbox has used its share"):
        journal.record(asked("hostile"))
    assert fits(journal, asked("other")) and fits(journal, push("other"))


def test_all_sandboxes_together_leave_what_is_for_grants_and_revocations(
    journal: Journal, disk: Disk, path: Path
) -> None:
    disk.full = True
    use_up_what_was_taken_ahead(journal)
    for number in range(4 * SHARES):
        while fits(journal, push(f"sb{number}", 20)):
            pass
    found = path.stat()
    assert found.st_blocks * 512 - found.st_size >= SIZE // OWN
    assert all(fits(journal, REVOKED) for _ in range(1000))
    assert not fits(journal, asked("late"))


def test_what_was_not_written_is_counted_and_told_when_there_is_space(
    journal: Journal, disk: Disk, path: Path
) -> None:
    disk.full = True
    use_up_what_was_taken_ahead(journal)  # the last one was not written
    assert [fits(journal, DENIAL) for _ in range(4)] == [False] * 4
    journal.record(REVOKED)
    assert journal.problem() is not None
    disk.full = False
    assert journal.problem() is None
    journal.record(DENIAL)
    journal.record(DENIAL)
    *_, told, first, second = read_events(path)
    assert (told["event"], told["count"]) == ("journal.dropped", 5)
    assert first["event"] == second["event"] == "egress.decision"
    assert verify_journal(path, journal.head()).head == journal.head()[1]


def test_with_space_again_every_share_is_whole_again(journal: Journal, disk: Disk) -> None:
    for _ in range(2):
        disk.full = True
        use_up_what_was_taken_ahead(journal)
        assert 20 < sum(fits(journal, asked("hostile")) for _ in range(1000)) < 300
        disk.full = False
        assert fits(journal, DENIAL)


def test_a_writer_that_starts_on_a_full_disk_has_what_the_one_before_it_kept(
    path: Path, disk: Disk
) -> None:
    first = on(path, disk)
    disk.full = True
    use_up_what_was_taken_ahead(first)
    first.record(REVOKED)
    first.close()
    second = on(path, disk)
    disk.full = True
    second.record(asked("sb1"))
    second.record(REVOKED)
    second.close()
    assert verify_journal(path).head == second.head()[1]


def test_space_is_really_taken_and_the_file_is_not_longer_for_it(path: Path) -> None:
    journal = open_journal(path, "h", lambda: 1e9)
    found = path.stat()
    assert found.st_blocks * 512 >= SIZE and found.st_size == 0
    assert journal.keeps_space()
    journal.close()


def test_a_file_that_is_written_no_more_keeps_no_space(path: Path) -> None:
    journal = open_journal(path, "h", lambda: 1e9, sizes=Sizes(segment=1000))
    for _ in range(30):
        journal.record(REVOKED, durable=False)
    journal.close()
    old = sorted(path.parent.glob("audit-*.ndjson"))
    assert len(old) > 3
    assert all(each.stat().st_blocks * 512 <= 8192 for each in old)
    assert path.stat().st_blocks * 512 >= SIZE


def test_no_file_is_begun_that_could_keep_less(path: Path, disk: Disk) -> None:
    journal = open_journal(path, "h", lambda: 1e9, sizes=Sizes(segment=1000))
    journal._reserve._allocate = disk
    disk.full = True
    use_up_what_was_taken_ahead(journal)
    inode = path.stat().st_ino
    for _ in range(10):
        journal.record(REVOKED)
    assert path.stat().st_ino == inode
    journal.close()


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_that_keeps_no_space_is_written_until_it_is_full_and_says_so(
    path: Path, number: int
) -> None:
    def unable(fd: int, start: int, length: int) -> None:
        raise OSError(number, os.strerror(number))

    with path.open("wb") as file:
        reserve = Reserve(file.fileno(), SIZE, unable)
        assert reserve.hold(0) and not reserve.real


def test_an_allocation_without_blocks_is_no_reservation(path: Path) -> None:
    with path.open("wb") as file:
        reserve = Reserve(file.fileno(), SIZE, lambda fd, start, length: None)
        assert reserve.hold(0) and not reserve.real


def test_the_space_that_an_older_version_kept_beside_it_is_given_back(path: Path) -> None:
    beside = path.parent / "audit.reserve"
    beside.write_bytes(bytes(4096))
    open_journal(path, "h", lambda: 1e9).close()
    assert not beside.exists()

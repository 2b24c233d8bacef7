"""The store's contract, and what SQLite does about damage."""

import sqlite3
from pathlib import Path

import pytest
from attrs import evolve

from broker.sessions.store import sqlite
from broker.sessions.store.interface import (
    AuditHead,
    CounterSeen,
    Moved,
    Over,
    SessionKnown,
    State,
    StoreDamaged,
    StoredSession,
    StoreUnavailable,
)
from broker.sessions.store.sqlite import (
    MIGRATIONS,
    SqliteStore,
    copy_of,
    open_sqlite,
    store_files,
)

SESSION = StoredSession(
    id="s1",
    key=bytes(32),
    host="h",
    host_boot="b",
    counter=1,
    sandbox="sb1",
    name="one",
    runtime="bwrap",
    container=None,
    netns=4026531840,
    epoch=1,
    scope="{}",
    issued=1700000000,
    ttl=3600,
    broker_boot="bb",
    deadline=4000.5,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


@pytest.fixture
def store(path: Path) -> SqliteStore:
    return open_sqlite(path)


def reopened(store: SqliteStore, path: Path) -> SqliteStore:
    """As another process would see it, with the first one still open: nothing was flushed."""
    return open_sqlite(path)


def test_a_session_is_there_for_the_next_process(store: SqliteStore, path: Path) -> None:
    store.admit(SESSION)
    assert reopened(store, path).sessions() == [SESSION]


def test_activation_and_end_are_kept(store: SqliteStore, path: Path) -> None:
    store.admit(SESSION)
    store.activate("s1", 77, 88, 99)
    active = evolve(SESSION, state=State.ACTIVE, pid=77, netns=88, cgroup=99)
    assert reopened(store, path).sessions() == [active]
    store.end("s1", "revoked")
    ended = evolve(active, state=State.ENDED, reason="revoked")
    assert reopened(store, path).sessions() == [ended]


def test_a_counter_is_used_once_per_host_and_boot(store: SqliteStore, path: Path) -> None:
    store.admit(SESSION)
    again = evolve(SESSION, id="s2", key=b"k" * 32)
    with pytest.raises(CounterSeen):
        reopened(store, path).admit(again)
    assert [one.id for one in store.sessions()] == ["s1"]
    store.admit(evolve(again, counter=2))
    store.admit(evolve(again, id="s3", key=b"l" * 32, host_boot="c"))
    store.admit(evolve(again, id="s4", key=b"m" * 32, host="i"))


def test_a_forgotten_session_leaves_its_counter_used(store: SqliteStore) -> None:
    store.admit(SESSION)
    store.forget("s1")
    assert store.sessions() == []
    with pytest.raises(CounterSeen):
        store.admit(SESSION)


def test_a_session_that_cannot_be_kept_leaves_its_counter_free(store: SqliteStore) -> None:
    store.admit(SESSION)
    with pytest.raises(SessionKnown):
        store.admit(evolve(SESSION, counter=2))
    store.admit(evolve(SESSION, id="s2", key=b"k" * 32, counter=2))


def test_the_audit_head_is_replaced(store: SqliteStore, path: Path) -> None:
    assert store.audit_head() is None
    store.keep_audit_head(AuditHead(1, "aa"))
    store.keep_audit_head(AuditHead(2, "bb"))
    assert reopened(store, path).audit_head() == AuditHead(2, "bb")


def test_every_commit_is_synced_and_the_file_is_private(store: SqliteStore, path: Path) -> None:
    assert store._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert store._db.execute("PRAGMA synchronous").fetchone() == (2,)
    assert all(one.stat().st_mode & 0o777 == 0o600 for one in store_files(path))
    assert len(store_files(path)) == 3


def test_a_damaged_file_is_refused_and_left_alone(path: Path) -> None:
    path.write_bytes(b"not a database, " * 100)
    with pytest.raises(StoreDamaged):
        open_sqlite(path)
    assert path.read_bytes() == b"not a database, " * 100


def test_a_damaged_page_is_found_at_the_start(store: SqliteStore, path: Path) -> None:
    for number in range(300):
        session = evolve(SESSION, id=f"s{number}", key=number.to_bytes(32), counter=number)
        store.admit(session)
    store.close()
    content = bytearray(path.read_bytes())
    content[4096 * 3 : 4096 * 5] = b"\xff" * 8192
    path.write_bytes(content)
    with pytest.raises(StoreDamaged):
        open_sqlite(path)


def test_what_is_kept_for_a_full_disk_outlives_an_end_in_order(
    store: SqliteStore, path: Path
) -> None:
    store.admit(SESSION)
    store.close()
    log, index = store_files(path)[1:]
    assert log.stat().st_size >= 512 << 10 and index.stat().st_size > 0
    assert sorted(path.parent.iterdir()) == sorted(store_files(path)), "no other name is left"
    again = open_sqlite(path)
    assert again.sessions() == [SESSION]
    again.end("s1", "revoked")
    again.close()
    assert [one.reason for one in open_sqlite(path).sessions()] == ["revoked"]


def test_a_log_that_sqlite_leaves_at_the_end_stays_as_it_is(store: SqliteStore, path: Path) -> None:
    other = open_sqlite(path)
    store.admit(SESSION)
    store.close()
    log = store_files(path)[1]
    assert any(log.read_bytes()[:32]), "another connection writes to it still"
    other.end("s1", "revoked")
    other.close()
    assert [one.reason for one in open_sqlite(path).sessions()] == ["revoked"]


def test_a_store_that_cannot_be_written_is_not_called_damaged(
    store: SqliteStore, path: Path
) -> None:
    store._db.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreUnavailable, match="disk"):
        open_sqlite(path, patience=0.0)


def test_a_store_of_a_newer_version_is_refused(store: SqliteStore, path: Path) -> None:
    store._db.execute("PRAGMA user_version = 9")
    with pytest.raises(StoreDamaged, match="version 9"):
        open_sqlite(path)


def test_a_symlink_in_place_of_the_database_is_refused(path: Path, tmp_path: Path) -> None:
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        open_sqlite(path)


def test_what_is_over_for_good_is_kept_with_the_end_of_its_session(
    store: SqliteStore, path: Path
) -> None:
    store.admit(SESSION)
    store.end("s1", "revoked", over=1000, moved=Moved(5, 7))
    store.forget("s1")
    over = {("h", "sb1"): Over("revoked", Moved(5, 7))}
    assert reopened(store, path).over() == over
    store.forget_over(1000)
    assert store.over() == over
    store.forget_over(1001)
    assert store.over() == {}


def test_a_renewal_changes_the_reason_alone_and_of_that_sandbox_alone(
    store: SqliteStore, path: Path
) -> None:
    store.admit(SESSION)
    store.admit(evolve(SESSION, id="s2", key=b"k2", sandbox="sb2", counter=99))
    store.end("s1", "idle", over=1000, moved=Moved(5, 7))
    store.end("s2", "idle", over=1000)
    store.renew("h", "sb1", "renewed")
    over = {("h", "sb1"): Over("renewed", Moved(5, 7)), ("h", "sb2"): Over("idle")}
    assert reopened(store, path).over() == over


def test_an_extension_and_the_clock_are_kept(store: SqliteStore, path: Path) -> None:
    store.admit(SESSION)
    store.extend("s1", 9000.25, 9500.5)
    assert store.highest_wall() == 0
    store.keep_wall(5)
    store.keep_wall(7)
    again = reopened(store, path)
    assert again.sessions() == [evolve(SESSION, deadline=9000.25, latest=9500.5)]
    assert again.highest_wall() == 7


def test_what_was_moved_is_kept_and_forgotten_with_its_session(
    store: SqliteStore, path: Path
) -> None:
    store.admit(SESSION)
    store.keep_usage({"s1": Moved(5, 7), "s2": Moved(0, 1)})
    assert reopened(store, path).usage() == {"s1": Moved(5, 7), "s2": Moved(0, 1)}
    store.forget("s1")
    assert reopened(store, path).usage() == {"s2": Moved(0, 1)}


# What a session was in a database of that version, and what was moved by then.
_SESSION = """INSERT INTO used_counter VALUES ('h', 'b', 1);
INSERT INTO session (id, key, host, host_boot, counter, sandbox, name, runtime, netns, epoch, scope,
  issued, ttl, broker_boot, deadline, state, reason) VALUES ('s1', zeroblob(32), 'h', 'b', 1, 'sb1',
  'one', 'bwrap', 4026531840, 1, '{}', 1700000000, 3600, 'bb', 4000.5, 'closed', '');
INSERT INTO usage VALUES ('s1', 1234);"""
SINCE = {2: "INSERT INTO over VALUES ('h', 'sb9', 'idle', 7);"}


def make_old(path: Path, version: int) -> None:
    old = sqlite3.connect(path)
    old.execute("PRAGMA journal_mode = WAL")
    old.executescript("".join(MIGRATIONS[:version]) + f"PRAGMA user_version = {version};")
    old.executescript(_SESSION + SINCE.get(version, ""))
    old.close()


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS)))
def test_a_store_of_each_version_before_is_taken_over_and_kept_as_it_was(
    path: Path, version: int
) -> None:
    make_old(path, version)
    store = open_sqlite(path)
    assert store.sessions() == [SESSION]
    assert store.usage() == {"s1": Moved(1234, 0)}
    assert store.over() == ({("h", "sb9"): Over("idle")} if version == 2 else {})
    store.keep_usage({"s1": Moved(1300, 99)})
    with pytest.raises(CounterSeen):
        store.admit(evolve(SESSION, id="s2", key=bytes(31) + b"2"))
    assert open_sqlite(path).usage() == {"s1": Moved(1300, 99)}
    kept = copy_of(path, version)
    assert kept.stat().st_mode & 0o777 == 0o600
    copy = sqlite3.connect(kept)
    assert copy.execute("PRAGMA user_version").fetchone() == (version,)
    assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert copy.execute("SELECT id FROM session").fetchall() == [("s1",)]
    copy.close()


def test_a_copy_has_what_is_in_the_log_only(path: Path) -> None:
    make_old(path, 1)
    other = sqlite3.connect(path)
    other.execute("PRAGMA wal_autocheckpoint = 0")
    other.execute("UPDATE usage SET bytes = 4321")
    other.commit()
    open_sqlite(path)
    copy = sqlite3.connect(copy_of(path, 1))
    assert copy.execute("SELECT bytes FROM usage").fetchall() == [(4321,)]


# CREATE TABLE as 0.2.0 wrote them, which said version 2 and made what was missing at each start.
def test_a_store_of_0_2_0_that_has_every_table_is_taken_over(path: Path) -> None:
    make_old(path, 2)
    old = sqlite3.connect(path)
    old.executescript(
        MIGRATIONS[2].partition("ALTER")[0] + "INSERT INTO egress_usage VALUES ('s1', 9);"
    )
    old.close()
    assert open_sqlite(path).usage() == {"s1": Moved(1234, 9)}


def test_a_new_store_and_one_of_this_version_are_not_copied(path: Path) -> None:
    open_sqlite(path).close()
    open_sqlite(path).close()
    assert sorted(path.parent.iterdir()) == sorted(store_files(path))


def test_a_change_of_version_is_made_whole_or_not_at_all(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_old(path, 1)
    broken = f"CREATE TABLE half (one); {MIGRATIONS[1]} INSERT INTO nowhere VALUES (1)"
    monkeypatch.setattr(sqlite, "MIGRATIONS", (MIGRATIONS[0], broken, MIGRATIONS[2]))
    with pytest.raises(StoreUnavailable, match="nowhere"):
        open_sqlite(path)
    monkeypatch.undo()
    store = open_sqlite(path)
    assert store.sessions() == [SESSION]
    assert store._rows("SELECT name FROM sqlite_master WHERE name = 'half'") == []


def test_a_store_of_which_no_copy_can_be_kept_is_not_changed(path: Path) -> None:
    make_old(path, 1)
    new = copy_of(path, 1).with_name(f"{copy_of(path, 1).name}.new")
    copy_of(path, 1).mkdir()
    with pytest.raises(StoreUnavailable, match="no copy of it can be kept: Is a directory"):
        open_sqlite(path)
    assert new.exists()
    version = sqlite3.connect(path).execute("PRAGMA user_version").fetchone()
    assert version == (1,)
    copy_of(path, 1).rmdir()
    assert open_sqlite(path).sessions() == [SESSION]
    assert not new.exists()

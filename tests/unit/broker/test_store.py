"""What is SQLite's own: damage, full disks, older versions. What every store must do is in
`test_store_contract`."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from broker.sessions.store import sqlite
from broker.sessions.store.interface import (
    CounterSeen,
    Moved,
    Over,
    StoreDamaged,
    StoreUnavailable,
)
from broker.sessions.store.sqlite import (
    MIGRATIONS,
    copy_of,
    open_sqlite,
    store_files,
)
from tests.fakes.at_once import AtOnce
from tests.fakes.stored_session import SESSION


def opened(path: Path) -> Any:
    return AtOnce(open_sqlite(path))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


@pytest.fixture
def store(path: Path) -> Any:
    return opened(path)


def test_every_commit_is_synced_and_the_file_is_private(store: Any, path: Path) -> None:
    assert store._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert store._db.execute("PRAGMA synchronous").fetchone() == (2,)
    assert all(one.stat().st_mode & 0o777 == 0o600 for one in store_files(path))
    assert len(store_files(path)) == 3


def test_a_damaged_file_is_refused_and_left_alone(path: Path) -> None:
    path.write_bytes(b"not a database, " * 100)
    with pytest.raises(StoreDamaged):
        opened(path)
    assert path.read_bytes() == b"not a database, " * 100


def test_a_damaged_page_is_found_at_the_start(store: Any, path: Path) -> None:
    for number in range(300):
        session = evolve(SESSION, id=f"s{number}", key=number.to_bytes(32), counter=number)
        store.admit(session)
    store.close()
    content = bytearray(path.read_bytes())
    content[4096 * 3 : 4096 * 5] = b"\xff" * 8192
    path.write_bytes(content)
    with pytest.raises(StoreDamaged):
        opened(path)


def test_what_is_kept_for_a_full_disk_outlives_an_end_in_order(store: Any, path: Path) -> None:
    store.admit(SESSION)
    store.close()
    log, index = store_files(path)[1:]
    assert log.stat().st_size >= 512 << 10 and index.stat().st_size > 0
    assert sorted(path.parent.iterdir()) == sorted(store_files(path)), "no other name is left"
    again = opened(path)
    assert again.load().sessions == [SESSION]
    again.end("s1", "revoked")
    again.close()
    assert [one.reason for one in opened(path).load().sessions] == ["revoked"]


def test_a_log_that_sqlite_leaves_at_the_end_stays_as_it_is(store: Any, path: Path) -> None:
    other = opened(path)
    store.admit(SESSION)
    store.close()
    log = store_files(path)[1]
    assert any(log.read_bytes()[:32]), "another connection writes to it still"
    other.end("s1", "revoked")
    other.close()
    assert [one.reason for one in opened(path).load().sessions] == ["revoked"]


def test_a_store_that_cannot_be_written_is_not_called_damaged(store: Any, path: Path) -> None:
    store._db.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreUnavailable, match="disk"):
        open_sqlite(path, patience=0.0)


def test_a_store_of_a_newer_version_is_refused(store: Any, path: Path) -> None:
    store._db.execute("PRAGMA user_version = 9")
    with pytest.raises(StoreDamaged, match="version 9"):
        opened(path)


def test_a_symlink_in_place_of_the_database_is_refused(path: Path, tmp_path: Path) -> None:
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        opened(path)


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
    store = opened(path)
    assert store.load().sessions == [SESSION]
    assert store.load().usage == {"s1": Moved(1234, 0)}
    assert store.load().over == ({("h", "sb9"): Over("idle")} if version == 2 else {})
    store.keep_usage({"s1": Moved(1300, 99)})
    with pytest.raises(CounterSeen):
        store.admit(evolve(SESSION, id="s2", key=bytes(31) + b"2"))
    assert opened(path).load().usage == {"s1": Moved(1300, 99)}
    kept = copy_of(path, version)
    assert kept.stat().st_mode & 0o777 == 0o600
    copy = sqlite3.connect(kept)
    assert copy.execute("PRAGMA user_version").fetchone() == (version,)
    assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert copy.execute("SELECT id FROM session").fetchall() == [("s1",)]
    copy.close()


_LATEST = "ALTER TABLE session ADD COLUMN latest REAL NOT NULL DEFAULT 0"


@pytest.mark.parametrize("number", [0, 1])
def test_what_0_2_0_was_killed_at_is_taken_over(path: Path, number: int) -> None:
    """It committed each statement, and wrote its number last."""
    make_old(path, 1)
    old = sqlite3.connect(path)
    old.executescript(f"{_LATEST}; PRAGMA user_version = {number};")
    old.close()
    assert opened(path).load().sessions == [SESSION]
    assert opened(path).load().usage == {"s1": Moved(1234, 0)}


def test_a_copy_has_what_is_in_the_log_only(path: Path) -> None:
    make_old(path, 1)
    other = sqlite3.connect(path)
    other.execute("PRAGMA wal_autocheckpoint = 0")
    other.execute("UPDATE usage SET bytes = 4321")
    other.commit()
    opened(path)
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
    assert opened(path).load().usage == {"s1": Moved(1234, 9)}


def test_a_new_store_and_one_of_this_version_are_not_copied(path: Path) -> None:
    opened(path).close()
    opened(path).close()
    assert sorted(path.parent.iterdir()) == sorted(store_files(path))


def test_a_change_of_version_is_made_whole_or_not_at_all(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_old(path, 1)
    broken = f"CREATE TABLE half (one); {MIGRATIONS[1]} INSERT INTO nowhere VALUES (1)"
    monkeypatch.setattr(sqlite, "MIGRATIONS", (MIGRATIONS[0], broken, MIGRATIONS[2]))
    with pytest.raises(StoreUnavailable, match="nowhere"):
        opened(path)
    monkeypatch.undo()
    store = opened(path)
    assert store.load().sessions == [SESSION]
    assert store._rows("SELECT name FROM sqlite_master WHERE name = 'half'") == []


def test_a_store_of_which_no_copy_can_be_kept_is_not_changed(path: Path) -> None:
    make_old(path, 1)
    new = copy_of(path, 1).with_name(f"{copy_of(path, 1).name}.new")
    copy_of(path, 1).mkdir()
    with pytest.raises(StoreUnavailable, match="no copy of it can be kept: Is a directory"):
        opened(path)
    assert new.exists()
    version = sqlite3.connect(path).execute("PRAGMA user_version").fetchone()
    assert version == (1,)
    copy_of(path, 1).rmdir()
    assert opened(path).load().sessions == [SESSION]
    assert not new.exists()

"""The store of one machine: SQLite in WAL mode, every commit synced to disk.

One connection, opened before the uid is dropped and kept: SQLite opens its files by full path,
which this uid may not be able to walk later.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from attrs import asdict, define, fields

from broker.sessions.store.interface import (
    NOTHING,
    AuditHead,
    Contents,
    CounterSeen,
    Moved,
    Over,
    SessionKnown,
    State,
    StoreDamaged,
    StoredSession,
    StoreFailed,
    StoreUnavailable,
)

_FIRST = """
CREATE TABLE IF NOT EXISTS used_counter (
  host TEXT NOT NULL, boot TEXT NOT NULL, counter INTEGER NOT NULL,
  PRIMARY KEY (host, boot, counter)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS session (
  id TEXT PRIMARY KEY, key BLOB NOT NULL UNIQUE, host TEXT NOT NULL, host_boot TEXT NOT NULL,
  counter INTEGER NOT NULL, sandbox TEXT NOT NULL, name TEXT NOT NULL, runtime TEXT NOT NULL,
  container TEXT, netns INTEGER NOT NULL, epoch INTEGER NOT NULL, scope TEXT NOT NULL,
  issued INTEGER NOT NULL, ttl INTEGER NOT NULL, broker_boot TEXT NOT NULL, deadline REAL NOT NULL,
  state TEXT NOT NULL, reason TEXT NOT NULL, pid INTEGER, cgroup INTEGER);
CREATE TABLE IF NOT EXISTS usage (session TEXT PRIMARY KEY, bytes INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS audit_head (
  one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER NOT NULL, hash TEXT NOT NULL);
"""
_ENDS_THAT_LAST = """
ALTER TABLE session ADD COLUMN latest REAL NOT NULL DEFAULT 0;
CREATE TABLE IF NOT EXISTS over (
  host TEXT NOT NULL, sandbox TEXT NOT NULL, reason TEXT NOT NULL, wall INTEGER NOT NULL,
  PRIMARY KEY (host, sandbox)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS clock (
  one INTEGER PRIMARY KEY CHECK (one = 1), wall INTEGER NOT NULL);
"""
# 0.2.0 added the first of them to databases that say 2.
_WHAT_WAS_MOVED = """
CREATE TABLE IF NOT EXISTS egress_usage (
  session TEXT PRIMARY KEY, bytes INTEGER NOT NULL) WITHOUT ROWID;
ALTER TABLE over ADD COLUMN git INTEGER NOT NULL DEFAULT 0;
ALTER TABLE over ADD COLUMN egress INTEGER NOT NULL DEFAULT 0;
"""
# The first makes a database of version 1 out of an empty one, and so on. What is here stays as it
# is: databases of every version that was released are taken over by what follows theirs.
MIGRATIONS = (_FIRST, _ENDS_THAT_LAST, _WHAT_WAS_MOVED)
_ADDED = re.compile(r"\s*ALTER TABLE (\w+) ADD COLUMN (\w+)")
# Space that is kept for a full disk: a few thousand ends. The log is begun anew long before it
# is that long, and SQLite keeps what file and log once had.
_SPARE = 512 << 10
_LOG_PAGES = 64
_HELD = "-held"
_HEADER = 136  # of the index (walformat, 2.1); that of the log is shorter
_COLUMNS = tuple(one.name for one in fields(StoredSession))


def _row(session: StoredSession) -> dict[str, Any]:
    return asdict(session) | {"state": session.state.value}


def _session(row: tuple[Any, ...]) -> StoredSession:
    values = dict(zip(_COLUMNS, row, strict=True))
    return StoredSession(**(values | {"state": State(values["state"])}))


@define(eq=False)
class SqliteStore:
    """Implements broker.sessions.store.interface.Store.

    Each call is over when it returns. The broker waits for its commit, which only beginnings,
    changes and ends of sessions need.
    """

    _db: sqlite3.Connection
    _path: Path

    def load(self) -> Contents:
        return Contents(
            self._sessions(), self._over(), self._usage(), self._highest_wall(), self._audit_head()
        )

    @contextmanager
    def _one_commit(self) -> Iterator[None]:
        with _own_errors(), self._db:
            yield

    async def admit(self, session: StoredSession) -> None:
        names = ", ".join(_COLUMNS)
        marks = ", ".join(f":{name}" for name in _COLUMNS)
        with self._one_commit():
            self._use_up(session, session.counter)
            try:
                self._db.execute(
                    f"INSERT INTO session ({names}) VALUES ({marks})",  # noqa: S608 - own names
                    _row(session),
                )
            except sqlite3.IntegrityError:
                raise SessionKnown from None

    def _use_up(self, session: StoredSession, counter: int) -> None:
        try:
            self._db.execute(
                "INSERT INTO used_counter VALUES (?, ?, ?)",
                (session.host, session.host_boot, counter),
            )
        except sqlite3.IntegrityError:
            raise CounterSeen from None

    async def rescope(self, session: StoredSession, counter: int, scope: str) -> None:
        with self._one_commit():
            self._use_up(session, counter)
            self._db.execute(
                "UPDATE session SET scope = ? WHERE id = ? AND state != 'ended'",
                (scope, session.id),
            )

    async def activate(self, session: str, pid: int, netns: int, cgroup: int | None) -> None:
        with self._one_commit():
            self._db.execute(
                "UPDATE session SET state = 'active', pid = ?, netns = ?, cgroup = ?"
                " WHERE id = ? AND state != 'ended'",
                (pid, netns, cgroup, session),
            )

    async def extend(self, session: str, deadline: float, latest: float) -> None:
        with self._one_commit():
            self._db.execute(
                "UPDATE session SET deadline = ?, latest = ? WHERE id = ? AND state != 'ended'",
                (deadline, latest, session),
            )

    async def end(
        self, session: str, reason: str, over: int | None = None, moved: Moved = NOTHING
    ) -> None:
        with self._one_commit():
            self._db.execute(
                "UPDATE session SET state = 'ended', reason = ? WHERE id = ?", (reason, session)
            )
            if over is not None:
                self._db.execute(
                    "INSERT OR REPLACE INTO over SELECT host, sandbox, ?, ?, ?, ? FROM session"
                    " WHERE id = ?",
                    (reason, over, moved.git, moved.egress, session),
                )

    def _over(self) -> dict[tuple[str, str], Over]:
        found = self._rows("SELECT host, sandbox, reason, git, egress FROM over")
        return {
            (host, name): Over(why, Moved(git, egress)) for host, name, why, git, egress in found
        }

    async def renew(self, host: str, sandbox: str, was: str, reason: str) -> None:
        with self._one_commit():
            self._db.execute(
                "UPDATE over SET reason = ? WHERE host = ? AND sandbox = ? AND reason = ?",
                (reason, host, sandbox, was),
            )

    async def forget_over(self, before: int) -> None:
        with self._one_commit():
            self._db.execute("DELETE FROM over WHERE wall < ?", (before,))

    def _highest_wall(self) -> int:
        return max((int(wall) for (wall,) in self._rows("SELECT wall FROM clock")), default=0)

    async def keep_wall(self, wall: int) -> None:
        with self._one_commit():
            self._db.execute("INSERT OR REPLACE INTO clock VALUES (1, ?)", (wall,))

    def _sessions(self) -> list[StoredSession]:
        query = f"SELECT {', '.join(_COLUMNS)} FROM session ORDER BY rowid"  # noqa: S608
        return [_session(row) for row in self._rows(query)]

    async def forget(self, session: str) -> None:
        with self._one_commit():
            self._db.execute("DELETE FROM session WHERE id = ?", (session,))
            self._db.execute("DELETE FROM usage WHERE session = ?", (session,))
            self._db.execute("DELETE FROM egress_usage WHERE session = ?", (session,))

    async def keep_usage(self, moved: Mapping[str, Moved]) -> None:
        git = [(name, each.git) for name, each in moved.items()]
        egress = [(name, each.egress) for name, each in moved.items()]
        with self._one_commit():
            for table, moved_there in (("usage", git), ("egress_usage", egress)):
                self._db.executemany(
                    f"INSERT INTO {table} VALUES (?, ?) ON CONFLICT (session) DO UPDATE"  # noqa: S608
                    " SET bytes = max(bytes, excluded.bytes)",
                    moved_there,
                )

    def _usage(self) -> dict[str, Moved]:
        # A broker before this one kept the first table only.
        found = self._rows(
            "SELECT usage.session, usage.bytes, coalesce(egress_usage.bytes, 0) FROM usage"
            " LEFT JOIN egress_usage ON egress_usage.session = usage.session"
        )
        return {name: Moved(git, egress) for name, git, egress in found}

    async def keep_audit_head(self, head: AuditHead) -> None:
        with self._one_commit():
            self._db.execute(
                "INSERT OR REPLACE INTO audit_head VALUES (1, ?, ?)", (head.seq, head.hash)
            )

    def _audit_head(self) -> AuditHead | None:
        heads = [AuditHead(*row) for row in self._rows("SELECT seq, hash FROM audit_head")]
        return heads[0] if heads else None

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        with _own_errors():
            return self._db.execute(query).fetchall()

    def close(self) -> None:
        """SQLite removes the log at the end, and with it the space that is kept for a start on a
        full disk. So another name holds it until that is done."""
        held = [(file, file.with_name(f"{file.name}{_HELD}")) for file in _beside(self._path)]
        for file, other in held:
            with suppress(OSError):
                other.unlink(missing_ok=True)
                os.link(file, other)
        self._db.close()
        for file, other in held:
            with suppress(OSError):
                _give_back(file, other)


def _beside(path: Path) -> tuple[Path, ...]:
    return tuple(path.with_name(f"{path.name}{end}") for end in ("-wal", "-shm"))


def _give_back(file: Path, held: Path) -> None:
    """Without its header a log is an empty one. What SQLite has left there stays as it is."""
    if file.exists():
        held.unlink()
        return
    descriptor = os.open(held, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.pwrite(descriptor, bytes(_HEADER), 0)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    held.rename(file)


def _create_private(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    os.close(descriptor)


@contextmanager
def _own_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise StoreUnavailable(str(error)) from None
    except sqlite3.DatabaseError as error:
        raise StoreDamaged(str(error)) from None


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "temp_store = MEMORY"):
        db.execute(f"PRAGMA {pragma}")
    (verdict,) = db.execute("PRAGMA quick_check").fetchone()
    if verdict != "ok":
        raise StoreDamaged("its integrity check fails")
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if not 0 <= version <= len(MIGRATIONS):
        raise StoreDamaged(f"it has version {version}; this broker writes {len(MIGRATIONS)}")
    if 0 < version < len(MIGRATIONS):
        _keep_copy(db, path, version)
    for number, script in enumerate(MIGRATIONS[version:], version + 1):
        _migrate(db, number, script)
    # Also where it says so already: a store that takes no write is found out at the start.
    db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
    _keep_space(db)


def copy_of(path: Path, version: int) -> Path:
    """Where the database is kept as it was before it was changed from this version."""
    return path.with_name(f"{path.name}.version-{version}")


def _keep_copy(db: sqlite3.Connection, path: Path, version: int) -> None:
    """With what is in the log. By a descriptor of ours: SQLite follows symlinks, and the directory
    is not root's alone."""
    kept = copy_of(path, version)
    new = kept.with_name(f"{kept.name}.new")
    new.unlink(missing_ok=True)
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(db.serialize())
            file.flush()
            os.fsync(descriptor)
        new.rename(kept)
    except OSError as error:
        raise StoreUnavailable(f"no copy of it can be kept: {error.strerror}") from None


def _migrate(db: sqlite3.Connection, number: int, script: str) -> None:
    """All of it or nothing, with the number."""
    db.execute("BEGIN IMMEDIATE")
    with db:
        for statement in script.split(";"):
            if not _is_done(db, statement):
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {number}")


def _is_done(db: sqlite3.Connection, statement: str) -> bool:
    """0.2.0 wrote its number last, and committed every statement: where it was killed in between,
    a part of a step is there. SQLite has no ADD COLUMN IF NOT EXISTS."""
    added = _ADDED.match(statement)
    if added is None:
        return False
    table, column = added.groups()
    return column in {name for _, name, *_ in db.execute(f"PRAGMA table_info({table})")}


def _keep_space(db: sqlite3.Connection) -> None:
    """Makes database and log long enough, so that grants and ends need no space of the disk."""
    db.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
    try:
        with db:
            db.execute("CREATE TABLE IF NOT EXISTS spare (bytes BLOB)")
            db.execute("INSERT INTO spare VALUES (randomblob(?))", (_SPARE,))
        db.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
        with db:
            db.execute("DROP TABLE spare")
        db.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
    except sqlite3.OperationalError:
        pass  # full already: what it has must do, and what cannot be kept is told then


def open_sqlite(path: Path, patience: float = 5.0) -> SqliteStore:
    """Opens or creates the database; StoreDamaged or StoreUnavailable rather than a fresh one in
    its place."""
    _create_private(path)
    db = sqlite3.connect(path, timeout=patience)
    try:
        with _own_errors():
            _prepare(db, path)
    except (StoreFailed, OSError) as error:
        db.close()
        if isinstance(error, StoreUnavailable):
            raise StoreUnavailable(f"{error}; its disk is full, or fails") from None
        raise
    return SqliteStore(db, path)


def store_files(path: Path) -> list[Path]:
    """The database and what SQLite keeps beside it, for the owner to be set."""
    return [one for one in (path, *_beside(path)) if one.exists()]

"""The two audit journals of a host, read as one sequence of records."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from heapq import merge
from pathlib import Path
from typing import BinaryIO, NamedTuple

from gitmoat.audit.chain import JournalBroken, read_events
from gitmoat.paths import Paths
from hostctl.failure import Failure, plain
from hostctl.terminal.moments import moment_text
from hostctl.terminal.quantities import duration

Record = Mapping[str, object]
_TIME = re.compile(r"\d{4}-\d\d-\d\d(T\d\d(:\d\d(:\d\d(\.\d{1,3})?)?)?Z?)?")


def journal_paths(paths: Paths) -> dict[str, Path]:
    return {"broker": paths.broker_audit, "hostd": paths.hostd_audit}


def events(paths: Paths) -> list[Record]:
    """All records of both journals in the order of their time stamps."""
    return list(records(paths))


def records(paths: Paths) -> Iterator[Record]:
    """The same, one by one, so that a long journal is not held in memory."""
    each = [_read(path) for path in journal_paths(paths).values()]
    return merge(*each, key=lambda event: str(event.get("ts", "")))


def _read(path: Path) -> Iterator[Record]:
    try:
        yield from read_events(path)
    except FileNotFoundError:
        return
    except PermissionError:
        raise Failure("C102", "the audit can be read by root only", str(path), "use sudo") from None
    except JournalBroken as broken:
        raise journal_broken(path, broken) from None


class Follower:
    """Reads what is added to a journal from now on, also after its writer began another file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._held = b""
        if self._open():
            self._skip()

    def arrived(self) -> list[Record]:
        """The complete lines that were written since."""
        found = self._rest()
        if self._replaced():
            found += self._rest()  # what was written between the two reads
            self._open()
            found += self._rest()
        return found

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _open(self) -> bool:
        self.close()
        try:
            self._file = self._path.open("rb")
        except FileNotFoundError:
            self._file = None
        return self._file is not None

    def _skip(self) -> None:
        if self._file is not None:
            self._file.seek(0, os.SEEK_END)

    def _replaced(self) -> bool:
        try:
            now = self._path.stat()
        except FileNotFoundError:
            return False
        return self._file is None or not os.path.samestat(now, os.fstat(self._file.fileno()))

    def _rest(self) -> list[Record]:
        data = self._file.read() if self._file is not None else b""
        *lines, self._held = (self._held + data).split(b"\n")
        return [record for line in lines if isinstance(record := json.loads(line), dict)]


class Wanted(NamedTuple):
    """Which records are wanted; an empty field matches every record."""

    sandboxes: frozenset[str] = frozenset()
    decision: str | None = None
    exact: Mapping[str, str] = {}
    since: str = ""
    until: str = ""

    def matches(self, event: Record) -> bool:
        moment = str(event.get("ts", ""))
        if moment < self.since or (self.until and moment >= self.until):
            return False
        if any(event.get(key) != value for key, value in self.exact.items()):
            return False
        return matches(event, self.sandboxes, False) and self.decision in (
            None,
            event.get("decision"),
        )


def moment(text: str, now: float | None = None) -> str:
    """`90m`, which is that long ago, or a UTC time, as journals write it."""
    if _TIME.fullmatch(text):
        return text.rstrip("Z")
    seconds = (time.time() if now is None else now) - duration(text)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def journal_broken(path: Path, broken: Exception) -> Failure:
    return Failure("B105", f"the journal {path} is not intact", str(broken))


def matches(event: Record, sandboxes: frozenset[str], denied_only: bool) -> bool:
    if denied_only and event.get("decision") != "deny":
        return False
    named = (str(event.get(key)) for key in ("sandbox", "name"))
    return not sandboxes or not sandboxes.isdisjoint(named)


def sandbox_names(sandbox: str, all_events: Iterable[Record]) -> frozenset[str]:
    """A name stands for every id the journals have known it by, also of removed sandboxes."""
    ids = {str(e["sandbox"]) for e in all_events if e.get("name") == sandbox and e.get("sandbox")}
    return frozenset({sandbox, *ids})


def event_line(event: Record) -> str:
    """One record as people read it: when, what, verdict, who, on what, why."""
    parts = [
        moment_text(event.get("ts")),
        f"{event.get('event', '?')!s:<18}",
        f"{event.get('decision') or '-'!s:<5}",
        str(event.get("name") or event.get("sandbox") or "-"),
    ]
    parts += [str(event[key]) for key in ("op", "repo", "to") if event.get(key)]
    parts += _ref_names(event.get("refs"))
    parts += [f"{key}={event[key]}" for key in ("tier", "rule", "code") if event.get(key)]
    parts += [f"({event['reason']})"] if event.get("reason") else []
    return plain("  ".join(parts))


def _ref_name(ref: Record) -> str:
    """A name that was cut is followed by the hash of all of it."""
    return f"{ref.get('ref')} sha256={ref['sha256']}" if "sha256" in ref else str(ref.get("ref"))


def _ref_names(refs: object) -> list[str]:
    if not isinstance(refs, list):
        return []
    names = [_ref_name(ref) if isinstance(ref, Mapping) else str(ref) for ref in refs]
    return names[:5] + ([f"and {len(names) - 5} more"] if len(names) > 5 else [])

"""What hostd must still know after it was killed: one small file per sandbox, written whole."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from attrs import frozen

_STATE_FILE = "state.json"


def start_time(pid: int) -> int | None:
    """When a process started, in clock ticks since boot: with the pid, its identity."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(text.rpartition(")")[2].split()[19])


@frozen
class ProcessRecord:
    pid: int
    started: int

    @staticmethod
    def of(pid: int) -> ProcessRecord | None:
        started = start_time(pid)
        return None if started is None else ProcessRecord(pid, started)

    def alive(self) -> bool:
        return start_time(self.pid) == self.started


@frozen
class Record:
    id: str
    name: str
    uid_index: int
    created: int
    policy: str
    processes: tuple[ProcessRecord, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": "gitmoat.sandbox/1",
            "id": self.id,
            "name": self.name,
            "uid_index": self.uid_index,
            "created": self.created,
            "policy": self.policy,
            "processes": [[process.pid, process.started] for process in self.processes],
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> Record:
        return Record(
            id=data["id"],
            name=data["name"],
            uid_index=data["uid_index"],
            created=data["created"],
            policy=data["policy"],
            processes=tuple(ProcessRecord(pid, started) for pid, started in data["processes"]),
        )


def write_whole(path: Path, text: str) -> None:
    """On disk entirely or not at all."""
    fresh = path.with_suffix(".new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


class Registry:
    """Directories ID/ below `parent`, each with a state file; the directory is the claim."""

    def __init__(self, parent: Path) -> None:
        self.parent = parent
        self._counter = parent.parent / "last-uid-index"

    def save(self, record: Record) -> None:
        write_whole(self.parent / record.id / _STATE_FILE, json.dumps(record.to_json()))

    def load(self) -> list[Record]:
        """Records of all directories; one without a readable file was never complete."""
        records = []
        for directory in sorted(self.parent.iterdir()):
            try:
                data = json.loads((directory / _STATE_FILE).read_text(encoding="utf-8"))
                records.append(Record.from_json(data))
            except (OSError, ValueError, KeyError, TypeError):
                records.append(Record(directory.name, directory.name, -1, 0, "", ()))
        return records

    def last_index(self) -> int:
        try:
            return int(self._counter.read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            return -1

    def remember_index(self, index: int) -> None:
        write_whole(self._counter, str(index))

"""What hostd must still know after it was killed: one file per sandbox, written before each step.

The file names the step under way, so that the next hostd knows whether to keep the sandbox or to
take it away; whatever ran without being named here is found by its cgroup.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from attrs import asdict, evolve, field, frozen

from hostd.failpoints import Failpoints

_STATE_FILE = "state.json"
_SCHEMA = "gitmoat.sandbox/2"


class Step(Enum):
    """In the order of a life. Only a sandbox whose command was started, or that was prepared for
    a container of others, is worth keeping."""

    DIRECTORIES = "directories"
    ROOMS = "rooms"
    RULES = "rules"
    LISTENERS = "listeners"
    SIDECAR = "sidecar"
    WORKSPACE = "workspace"
    PREPARED = "prepared"
    SERVED = "served"
    ENDING = "ending"
    STOPPED = "stopped"
    REMOVING = "removing"
    DAMAGED = "damaged"


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


@frozen(kw_only=True)
class Record:
    """JSON-able; `processes` has the keys room, gate and holder, each also with -monitor, sidecar
    and command.

    `image`, `environment`, `holding` and `container` are a Docker sandbox's.
    `attached`: somebody waits for the command. `remove`: the sandbox goes when the command ends.
    """

    id: str
    name: str
    step: Step
    uid_index: int
    created: int
    policy: Mapping[str, Any]
    repositories: tuple[Mapping[str, Any], ...] = ()
    upstreams: Mapping[str, Any] = field(factory=dict)
    workdir: Mapping[str, Any] | None = None
    limits: Mapping[str, Any] = field(factory=dict)
    source: Mapping[str, Any] | None = None
    image: str | None = None
    environment: Mapping[str, str] = field(factory=dict)
    holding: Mapping[str, Any] | None = None
    container: Mapping[str, Any] | None = None
    boot_id: str = ""
    processes: Mapping[str, ProcessRecord] = field(factory=dict)
    netns: int = 0
    session: str | None = None
    expires: float = 0.0  # for people; the boot clock and `ttl` decide
    began: float = 0.0
    ttl: int = 0
    epoch: int = 0  # of the last grant
    rules: str = ""
    exit_status: int | None = None
    attached: bool = False
    remove: bool = False
    ended: Mapping[str, Any] | None = None  # why and when it last did

    def ending(self, reason: str) -> Record:
        return evolve(self, ended={"reason": reason, "at": int(time.time())})

    def at(self, step: Step) -> Record:
        return evolve(self, step=step)

    def to_json(self) -> dict[str, Any]:
        data = asdict(self, recurse=False)
        processes = {key: [p.pid, p.started] for key, p in self.processes.items()}
        return data | {"schema": _SCHEMA, "step": self.step.value, "processes": processes}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Record:
        if data.pop("schema") != _SCHEMA:
            raise ValueError("written by another version")
        processes = {key: ProcessRecord(*pair) for key, pair in data["processes"].items()}
        given = {"step": Step(data["step"]), "processes": processes}
        return Record(**data | given | {"repositories": tuple(data["repositories"])})


def write_whole(path: Path, text: str) -> None:
    """On disk entirely, or the old text still."""
    fresh = path.with_suffix(".new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


@frozen
class Loaded:
    """`unmade`: ids of directories without a record, which were never complete."""

    records: list[Record] = field(factory=list)
    unmade: list[str] = field(factory=list)


def _damaged(identifier: str) -> Record:
    """Records are written whole: one that cannot be read was made, and its files are somebody's."""
    return Record(
        id=identifier,
        name=identifier,
        step=Step.DAMAGED,
        uid_index=-1,
        created=0,
        policy={},
    )


class Registry:
    """Directories ID/ below `parent`, each with a state file; the directory is the claim."""

    def __init__(self, parent: Path, failpoints: Failpoints | None = None) -> None:
        self.parent = parent
        self._failpoints = failpoints or Failpoints()
        self._counter = parent.parent / "last-uid-index"

    def claim(self, record: Record) -> None:
        directory = self.parent / record.id
        directory.mkdir(mode=0o700)
        try:
            self.save(record)
        except OSError:
            shutil.rmtree(directory, ignore_errors=True)  # there is nothing but the record in it
            raise

    def save(self, record: Record) -> None:
        write_whole(self.parent / record.id / _STATE_FILE, json.dumps(record.to_json()))
        self._failpoints.reached(record.step.value, record.id)

    def load(self) -> Loaded:
        loaded = Loaded()
        for directory in sorted(self.parent.iterdir()):
            try:
                data = json.loads((directory / _STATE_FILE).read_text(encoding="utf-8"))
                loaded.records.append(Record.from_json(data))
            except FileNotFoundError:
                loaded.unmade.append(directory.name)
            except (OSError, ValueError, KeyError, TypeError, AttributeError):
                loaded.records.append(_damaged(directory.name))
        return loaded

    def last_index(self) -> int:
        try:
            return int(self._counter.read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            return -1

    def remember_index(self, index: int) -> None:
        write_whole(self._counter, str(index))

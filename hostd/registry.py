"""The records of sandboxes: one file for each, written before each step of its life.

The file names the step under way, so that the next hostd knows whether to keep the sandbox or to
remove it. Processes that no record names are found by their cgroup.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any

from attrs import asdict, evolve, field, frozen
from twisted.logger import Logger

from hostd.atomic_file import write_whole
from hostd.failpoints import Failpoints
from hostd.process.proc import start_time
from hostd.sandbox.plan import KEYS, Ours, Theirs, ownership_of

_log = Logger()
_STATE_FILE = "state.json"
_SCHEMA = "gitmoat.sandbox/2"


class Step(Enum):
    """Where a sandbox is in its life, in that order. A new hostd keeps only a sandbox whose
    command was started, or that was prepared for a container of others."""

    DIRECTORIES = "directories"
    NAMESPACES = "rooms"
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

    @property
    def runs(self) -> bool:
        """It is served; the git gate clones into the workspace before the command starts."""
        return self in (Step.WORKSPACE, Step.SERVED)

    def leads_to(self, step: Step) -> bool:
        """Every life can end, at any step, and whatever has ended can be removed. What is being
        removed may have lost files already: it is removed, and nothing else."""
        if self is Step.REMOVING:
            return step is self
        return step in (self, Step.ENDING, Step.REMOVING) or step in _NEXT[self]


# Containers of others are attached and detached. A stopped sandbox is started again from ENDING, so
# that its files are kept if hostd is killed meanwhile.
_NEXT: Mapping[Step, tuple[Step, ...]] = {
    Step.DIRECTORIES: (Step.NAMESPACES,),
    Step.NAMESPACES: (Step.RULES,),
    Step.RULES: (Step.LISTENERS,),
    Step.LISTENERS: (Step.SIDECAR, Step.PREPARED),
    Step.SIDECAR: (Step.WORKSPACE,),
    Step.WORKSPACE: (Step.SERVED,),
    Step.PREPARED: (Step.SERVED,),
    Step.SERVED: (Step.PREPARED,),
    Step.ENDING: (Step.STOPPED, Step.SERVED, Step.PREPARED),
    Step.STOPPED: (),
    Step.REMOVING: (),
    Step.DAMAGED: (),
}


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
    """JSON-able. The keys of `processes` are room (the sandbox's first process), gate and holder,
    each also with -monitor, sidecar and command: names on disk stay.

    `plan` is the plan as it is on disk; that of another version may not be understood any more.
    `environment`, `holding` and `container` belong to a sandbox in Docker.
    `attached`: a client waits for the command. `remove`: the sandbox is removed with its command.
    """

    plan: Mapping[str, Any]
    step: Step
    created: int
    environment: Mapping[str, str] = field(factory=dict)
    holding: Mapping[str, Any] | None = None
    container: Mapping[str, Any] | None = None
    boot_id: str = ""
    processes: Mapping[str, ProcessRecord] = field(factory=dict)
    netns: int = 0
    session: str | None = None
    expires: float = 0.0  # to be shown; the boot clock and `ttl` decide
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

    def at(self, step: Step, **changes: Any) -> Record:
        if not self.step.leads_to(step):
            raise ValueError(f"{self.step.value} does not lead to {step.value}")
        return evolve(self, step=step, **changes)

    @property
    def id(self) -> str:
        return str(self.plan["id"])

    @property
    def name(self) -> str:
        return str(self.plan["name"])

    @property
    def uid_index(self) -> int:
        return int(self.plan["uid_index"])

    @property
    def ownership(self) -> Ours | Theirs | None:
        return ownership_of(self.plan.get("image"))

    def summary(self) -> dict[str, Any]:
        """As `ls` shows it, of whatever version its plan is."""
        return {
            "sandbox": self.id,
            "name": self.name,
            "runtime": "bwrap" if self.ownership is None else "docker",
            "state": "running" if self.step.runs else self.step.value,
            "policy": self.plan["policy"].get("name"),
            "created": self.created,
            "exit": self.exit_status,
        }

    def to_json(self) -> dict[str, Any]:
        """The plan's keys lie beside the record's own."""
        data = asdict(self, recurse=False)
        processes = {key: [p.pid, p.started] for key, p in self.processes.items()}
        own = {"schema": _SCHEMA, "step": self.step.value, "processes": processes}
        return {**data.pop("plan"), **data, **own}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Record:
        if data.pop("schema") != _SCHEMA:
            raise ValueError("written by another version")
        processes = {key: ProcessRecord(*pair) for key, pair in data["processes"].items()}
        plan = {key: data.pop(key) for key in KEYS if key in data}
        record = Record(**data | {"step": Step(data["step"]), "processes": processes, "plan": plan})
        record.summary(), record.uid_index  # without these nothing can be said of it
        return record


@frozen
class Loaded:
    """`unmade`: ids of directories without a record, whose sandboxes were never complete."""

    records: list[Record] = field(factory=list)
    unmade: list[str] = field(factory=list)


def _damaged(identifier: str) -> Record:
    """Records are written whole: one that cannot be read belongs to a sandbox, whose files stay."""
    plan = {"id": identifier, "name": identifier, "uid_index": -1, "policy": {}}
    return Record(plan=plan, step=Step.DAMAGED, created=0)


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

    def files_of(self, identifier: str) -> list[Path]:
        """What a sandbox has in its directory besides its record."""
        try:
            found = list((self.parent / identifier).iterdir())
        except FileNotFoundError:
            return []
        return [path for path in found if path.name != _STATE_FILE]

    def forget(self, identifier: str) -> None:
        """Removes the record and its directory, in which nothing else is left."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self.parent / identifier)

    def save(self, record: Record) -> None:
        write_whole(self.parent / record.id / _STATE_FILE, json.dumps(record.to_json()))
        self._failpoints.reached(record.step.value, record.id)

    def save_if_possible(self, record: Record) -> None:
        """A full disk does not keep a sandbox from ending, nor hostd from serving the others."""
        try:
            self.save(record)
        except OSError as problem:
            _log.error("{id} not recorded: {why}", id=record.id, why=str(problem))

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

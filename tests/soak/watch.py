"""Reads along: every new byte of logs and journals is searched for the secret and understood."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.stage.gitmoat import Gitmoat
from tests.stage.probes import spellings


class Watch:
    """Remembers how far each file was read; a journal's record is read once."""

    def __init__(self, stage: Gitmoat) -> None:
        self._stage = stage
        self._secrets = [text.encode() for text in spellings(stage.public)]
        self._read: dict[Path, int] = {}
        self._allowed: set[tuple[str, str]] = set()
        self._needed: set[tuple[str, str]] = set()
        self.records = 0
        self.bytes = 0

    def look(self, text: str, where: str) -> None:
        self._search(text.encode(errors="replace"), where)

    def need_push(self, ref: str, commit: str) -> None:
        """A ref that has changed at the git server must have a record that allowed it."""
        self._needed.add((ref, commit))

    def check(self) -> None:
        paths = self._stage.paths
        journals = (paths.broker_audit, paths.hostd_audit)
        for path in (*journals, *sorted(paths.log_dir.glob("*.log"))):
            data = self._new(path)
            self._search(data, path.name)
            if path in journals:
                self._understand(data)
        assert self._needed <= self._allowed, f"not recorded: {self._needed - self._allowed}"
        self._allowed -= self._needed
        self._needed.clear()

    def last_words(self) -> str:
        """The ends of the daemons' logs, for whoever has to find out."""
        paths = self._stage.paths
        ends = []
        for path in (paths.hostd_log, paths.broker_log):
            lines = path.read_text(errors="replace").splitlines() if path.exists() else []
            ends += [f"--- {path.name}", *lines[-15:]]
        return "\n".join(ends)

    def cgroups(self) -> set[str]:
        """The groups of this root, by name."""
        found = self._stage.root.stat()
        name = f"gitmoat-{found.st_dev:x}-{found.st_ino:x}"
        top = Path("/sys/fs/cgroup")
        trees = (top, *top.iterdir())
        return {group.name for tree in trees for group in tree.glob(f"{name}*/*/")}

    def _new(self, path: Path) -> bytes:
        try:
            with path.open("rb") as file:
                start = self._read.get(path, 0)
                file.seek(start if start <= path.stat().st_size else 0)
                data = file.read()
                self._read[path] = file.tell()
        except FileNotFoundError:
            return b""
        self.bytes += len(data)
        return data

    def _search(self, data: bytes, where: str) -> None:
        assert not any(secret in data for secret in self._secrets), f"the secret is in {where}"

    def _understand(self, data: bytes) -> None:
        for line in data.splitlines():
            record: dict[str, Any] = json.loads(line)
            self.records += 1
            if record["event"].startswith("push") and record.get("decision") == "allow":
                self._allowed |= {(each["ref"], each["new"]) for each in record["refs"]}

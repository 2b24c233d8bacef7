"""A long answer and a long push, raw: the same bytes through every way, with curl."""

from __future__ import annotations

import subprocess
from pathlib import Path

from attrs import frozen

from bench.chains.way import Way
from bench.processes import cpu_seconds, forget_peak, resident

Values = dict[str, tuple[float, str]]
_FETCH = b"0011command=fetch0001000fno-progress0000"
_ZERO = "0" * 40
_ONE = "1" * 40
_GB = 1e9


@frozen
class Transfers:
    """Needs a directory that clients can read, for what they send."""

    directory: Path

    @classmethod
    def make(cls, directory: Path, raw: int) -> Transfers:
        directory.mkdir(mode=0o755)
        (directory / "fetch").write_bytes(_FETCH)
        line = f"{_ZERO} {_ONE} refs/heads/main\0report-status".encode()
        with (directory / "push").open("wb") as file:
            file.write(b"%04x%b0000PACK\0\0\0\2" % (len(line) + 4, line))
            for _ in range(raw >> 20):
                file.write(bytes(range(256)) * 4096)
        return cls(directory)

    def download(self, way: Way) -> Values:
        return self._measured(way, "download", self._download(way))

    def upload(self, way: Way) -> Values:
        words = ("-T", str(self.directory / "push"), "-X", "POST", "-H", "Expect:")
        kind = ("-H", "Content-Type: application/x-git-receive-pack-request")
        chunked = ("-H", "Transfer-Encoding: chunked")
        target = f"{way.url('fake/upload')}/git-receive-pack"
        return self._measured(way, "upload", self._curl(way, *words, *kind, *chunked, target))

    def _download(self, way: Way) -> list[str]:
        kind = ("-H", "Content-Type: application/x-git-upload-pack-request")
        words = ("--data-binary", f"@{self.directory}/fetch", *kind)
        return self._curl(way, *words, f"{way.url('fake/download')}/git-upload-pack")

    def _measured(self, way: Way, row: str, command: list[str]) -> Values:
        pids = way.pids()
        everyone = [pid for family in pids.values() for pid in family]
        forget_peak(everyone)
        memory = resident(everyone)
        before = {hop: cpu_seconds(family) for hop, family in pids.items()}
        seconds, first, size = _ran(command)
        used = {hop: cpu_seconds(family) - before[hop] for hop, family in pids.items()}
        values: Values = {row: (size / seconds / 1e6, "MB/s")}
        if row == "download":
            values["first byte"] = (first * 1000, "ms")
        if pids:
            values[f"{row}: CPU"] = (sum(used.values()) / size * _GB, "s/GB")
            peak = resident(everyone, "VmHWM")
            values[f"{row}: memory grown"] = ((peak - memory) / 1024, "MiB")
            values[f"{row}: peak memory"] = (peak / 1024, "MiB")
        for number, hop in enumerate(used, 1):
            values[f"{row}: CPU of hop {number}"] = (used[hop] / size * _GB, "s/GB")
        return values

    def _curl(self, way: Way, *words: str) -> list[str]:
        said = "%{http_code} %{time_total} %{time_starttransfer} %{size_download} %{size_upload}"
        return way.words("curl", "-sS", "-o", "/dev/null", "-w", said, *credentials(way), *words)


def credentials(way: Way) -> list[str]:
    """For curl, without a password in its arguments."""
    words = ["--cacert", str(way.ca)] if way.ca else []
    return [*words, "-H", f"@{way.header_file}"] if way.header_file else words


def _ran(command: list[str]) -> tuple[float, float, float]:
    """Seconds in all, seconds to the first byte, bytes of the longer direction."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    words = done.stdout.split()
    if done.returncode or words[:1] != ["200"]:
        raise RuntimeError(f"{command[-1]}: {done.stdout} {done.stderr}")
    return float(words[1]), float(words[2]), max(map(float, words[3:]))

"""The pause: a whole program in a few bytes, for each machine we know."""

from __future__ import annotations

import io
import os
import signal
import struct
import subprocess
import tarfile
from pathlib import Path

import pytest

from hostd.docker import pause
from tests.waiting import eventually


def test_it_runs_ignores_the_end_of_children_and_waits(tmp_path: Path) -> None:
    path = tmp_path / "pause"
    path.write_bytes(pause.program())
    path.chmod(0o755)
    with subprocess.Popen([str(path)]) as process:
        try:
            eventually(lambda: ignores(process.pid, signal.SIGCHLD), "it ignores them")
            assert process.poll() is None
        finally:
            process.kill()


def ignores(pid: int, number: int) -> bool:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    line = next(each for each in lines if each.startswith("SigIgn"))
    return bool(int(line.split()[1], 16) >> (number - 1) & 1)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_it_is_one_loadable_piece_that_ends_with_its_file(machine: str) -> None:
    data = pause.program(machine)
    assert data[:4] == b"\x7fELF"
    entry, headers = struct.unpack_from("<QQ", data, 24)
    kind, flags, offset, at, _, size, memory, _ = struct.unpack_from("<IIQQQQQQ", data, headers)
    assert (kind, flags, offset) == (1, 5, 0)
    assert size == memory == len(data)
    assert at < entry < at + size


def test_both_machines_point_at_the_structure_behind_their_code() -> None:
    intel = pause.program("x86_64")[120:]
    (away,) = struct.unpack_from("<i", intel, 8)
    assert intel[12 + away :] == struct.pack("<QQQQ", 1, 0, 0, 0)
    arm = pause.program("aarch64")[120:]
    (adr,) = struct.unpack_from("<I", arm, 4)
    away = (adr >> 5 & 0x7FFFF) << 2 | adr >> 29 & 3
    assert arm[4 + away :] == struct.pack("<QQQQ", 1, 0, 0, 0)


def test_the_image_has_the_program_and_nothing_else() -> None:
    with tarfile.open(fileobj=io.BytesIO(pause.image())) as archive:
        entries = archive.getmembers()
        assert [(entry.name, entry.mode) for entry in entries] == [("pause", 0o755)]
        file = archive.extractfile(entries[0])
        assert file is not None
        assert file.read() == pause.program(os.uname().machine)


def test_another_program_has_another_tag() -> None:
    assert pause.tag("x86_64") != pause.tag("aarch64")

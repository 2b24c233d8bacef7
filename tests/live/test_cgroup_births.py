"""Children of both forking processes are in their cgroups before they do anything."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostd.launcher import Launcher
from hostd.process.cgroups import find_hierarchies
from hostd.process.fork_server import ForkServer, join_cgroups
from hostd.process.requests import Command, Sidecar
from hostd.zygote import Zygote


@pytest.fixture
def groups() -> Iterator[list[Path]]:
    """A group in each hierarchy that hostd uses."""
    made = [hierarchy / f"gitmoat-test-{os.getpid()}" for hierarchy in find_hierarchies().all()]
    for directory in made:
        directory.mkdir()
    yield made
    for directory in made:
        directory.rmdir()


def memberships(kind: type[ForkServer], directories: list[str]) -> tuple[str, tuple[str, ...]]:
    """Of a child that is forked and has joined what it was not born in; and what that was."""
    reader, writer = os.pipe()
    near, far = socket.socketpair()
    cgroups = tuple(directories)
    requests: dict[type[ForkServer], Command | Sidecar] = {
        Launcher: Command(argv=("x",), environment={}, cgroups=cgroups),
        Zygote: Sidecar(uid=1, empty_root="/", cgroups=cgroups),
    }
    with near, far:
        pid, rest = kind(far).fork(requests[kind], [])
    assert isinstance(rest, Command | Sidecar)
    if pid == 0:
        try:
            join_cgroups(rest.cgroups)
            os.write(writer, Path("/proc/self/cgroup").read_bytes())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, encoding="ascii") as pipe:
        found = pipe.read()
    assert os.waitpid(pid, 0) == (pid, 0)
    return found, rest.cgroups


@pytest.mark.parametrize("kind", [Launcher, Zygote])
def test_a_child_is_in_every_group(groups: list[Path], kind: type[ForkServer]) -> None:
    found, left = memberships(kind, [str(directory) for directory in groups])
    assert found.count(f"/{groups[0].name}\n") >= len(groups)
    born = [each for each in groups if str(each) not in left]
    unified = [each for each in groups if not (each / "tasks").exists()]
    assert born == (unified if kind is Launcher else [])


def test_where_no_child_can_be_born_in_a_group_it_joins(groups: list[Path], tmp_path: Path) -> None:
    """A directory that is no cgroup stands for a kernel or a filter that refuses."""
    (tmp_path / "cgroup.procs").touch()
    found, left = memberships(Launcher, [str(tmp_path), *map(str, groups)])
    assert found.count(f"/{groups[0].name}\n") >= len(groups)
    assert left[0] == str(tmp_path) and len(left) == 1 + len(groups)
    assert (tmp_path / "cgroup.procs").read_bytes() == b"0"

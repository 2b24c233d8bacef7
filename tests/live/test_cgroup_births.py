"""Children of the zygote are in their cgroups before they do anything, in whichever way."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostd.cgroups import find_hierarchies
from hostd.zygote import _fork_for, _join_cgroups

pytestmark = pytest.mark.live


@pytest.fixture
def groups() -> Iterator[list[Path]]:
    """A group in each hierarchy that hostd uses."""
    made = [hierarchy / f"gitmoat-test-{os.getpid()}" for hierarchy in find_hierarchies().all()]
    for directory in made:
        directory.mkdir()
    yield made
    for directory in made:
        directory.rmdir()


def memberships(op: str, directories: list[str]) -> tuple[str, list[str]]:
    """Of a child that is forked and has joined what it was not born in; and what that was."""
    reader, writer = os.pipe()
    request = {"op": op, "cgroups": directories}
    pid = _fork_for(request)
    if pid == 0:
        try:
            _join_cgroups(directories)
            os.write(writer, Path("/proc/self/cgroup").read_bytes())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, encoding="ascii") as pipe:
        found = pipe.read()
    assert os.waitpid(pid, 0) == (pid, 0)
    return found, directories


@pytest.mark.parametrize("op", ["execute", "probe", "sidecar"])
def test_a_child_is_in_every_group(groups: list[Path], op: str) -> None:
    found, left = memberships(op, [str(directory) for directory in groups])
    assert found.count(f"/{groups[0].name}\n") >= len(groups)
    assert not any(Path(each, "cgroup.controllers").exists() for each in left) or op == "sidecar"


def test_where_no_child_can_be_born_in_a_group_it_joins(groups: list[Path], tmp_path: Path) -> None:
    """A directory that is no cgroup stands for a kernel or a filter that refuses."""
    (tmp_path / "cgroup.procs").touch()
    found, left = memberships("execute", [str(tmp_path), *map(str, groups)])
    assert found.count(f"/{groups[0].name}\n") >= len(groups)
    assert left[0] == str(tmp_path) and len(left) == 1 + len(groups)
    assert (tmp_path / "cgroup.procs").read_bytes() == b"0"

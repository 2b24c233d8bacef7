"""The descriptor that was checked is what is mounted, also when its path means something else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitmoat.confine.mounts import user_namespace
from gitmoat.paths import Paths
from hostd.failures import Failed
from hostd.process.requests import Ids
from hostd.sandbox.workdir import Workdir, Workdirs

OWNER, UNTRUSTED = 4021, 2_000_000_002


async def idmap(uids: Ids, gids: Ids) -> int:
    return user_namespace((uids.on_disk, uids.shown), (gids.on_disk, gids.shown))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "root"
    Paths(place).workdir_mounts.mkdir(parents=True, mode=0o700)
    return place


@pytest.fixture
def workdirs(root: Path) -> Iterator[Workdirs]:
    made = Workdirs(Paths(root), idmap)
    yield made
    for name in ("one", "two"):
        made.unmount(name)
        made.release(name)


def directory(path: Path, text: str) -> Path:
    path.mkdir(parents=True)
    (path / "file").write_text(text)
    for each in (path, path / "file"):
        os.chown(each, OWNER, OWNER)
    return path


def mounted(workdirs: Workdirs, name: str = "one") -> Path:
    """Drives the coroutine by hand: nothing in it waits here."""
    try:
        workdirs.mount(name, UNTRUSTED).send(None)
    except StopIteration as done:
        target: Path = done.value
        return target
    raise AssertionError("it waits")


@pytest.mark.parametrize("swapped", ["the directory", "its parent"])
def test_a_swap_between_check_and_mount_changes_nothing(
    workdirs: Workdirs, tmp_path: Path, swapped: str
) -> None:
    work = directory(tmp_path / "parent" / "work", "work")
    directory(tmp_path / "evil" / "work", "secret")
    claimed = workdirs.claim("one", Workdir(str(work), read_only=False))
    victim = work if swapped == "the directory" else work.parent
    victim.rename(tmp_path / "kept")
    victim.symlink_to(tmp_path / "evil" / ("work" if victim == work else "."))
    assert (work / "file").read_text() == "secret"
    target = mounted(workdirs)
    assert (target / "file").read_text() == "work"
    there = target.stat()
    assert (there.st_dev, there.st_ino) == claimed.identity
    assert (there.st_uid, there.st_gid) == (UNTRUSTED, UNTRUSTED)


def test_a_chown_between_check_and_mount_does_not_lend_root(
    workdirs: Workdirs, tmp_path: Path
) -> None:
    work = directory(tmp_path / "work", "work")
    workdirs.claim("one", Workdir(str(work), read_only=False))
    os.chown(work, 0, 0)
    assert mounted(workdirs).stat().st_uid == 65534


def test_another_directory_than_the_recorded_one_is_refused(
    workdirs: Workdirs, tmp_path: Path
) -> None:
    work = directory(tmp_path / "work", "work")
    recorded = workdirs.claim("one", Workdir(str(work), read_only=False))
    workdirs.release("one")
    assert workdirs.claim("one", recorded) == recorded
    workdirs.release("one")
    work.rename(tmp_path / "kept")
    directory(work, "other")
    with pytest.raises(Failed) as caught:
        workdirs.claim("one", recorded)
    assert caught.value.code == "R110"
    assert "another directory is there" in caught.value.why


def test_a_link_in_the_path_is_refused(workdirs: Workdirs, tmp_path: Path) -> None:
    directory(tmp_path / "parent" / "work", "work")
    (tmp_path / "link").symlink_to("parent")
    (tmp_path / "direct").symlink_to("parent/work")
    for path in (tmp_path / "link" / "work", tmp_path / "direct"):
        with pytest.raises(Failed) as caught:
            workdirs.claim("one", Workdir(str(path), read_only=False))
        assert "symbolic link" in caught.value.why


def test_the_mount_point_is_reached_by_root_only_and_goes_away(
    workdirs: Workdirs, root: Path, tmp_path: Path
) -> None:
    work = directory(tmp_path / "work", "work")
    workdirs.claim("one", Workdir(str(work), read_only=True))
    target = mounted(workdirs)
    parent = target.parent.stat()
    assert (parent.st_mode & 0o777, parent.st_uid) == (0o700, 0)
    with pytest.raises(OSError, match="Read-only"):
        (target / "new").touch()
    workdirs.sweep()
    assert list(Paths(root).workdir_mounts.iterdir()) == []
    assert (work / "file").read_text() == "work"


def test_a_claim_is_for_one_and_ends_with_release(workdirs: Workdirs, tmp_path: Path) -> None:
    work = directory(tmp_path / "work", "work")
    inner = directory(work / "inner", "inner")
    for first, second in ((work, work), (work, inner), (inner, work)):
        workdirs.claim("one", Workdir(str(first), read_only=False))
        with pytest.raises(Failed) as caught:
            workdirs.claim("two", Workdir(str(second), read_only=True))
        assert caught.value.code == "R111"
        workdirs.release("one")


def test_a_nested_directory_is_found_where_it_is_now(workdirs: Workdirs, tmp_path: Path) -> None:
    work, other = directory(tmp_path / "work", "x"), directory(tmp_path / "other", "y")
    workdirs.claim("one", Workdir(str(work), read_only=False))
    work.rename(other / "moved")
    with pytest.raises(Failed) as caught:
        workdirs.claim("two", Workdir(str(other), read_only=False))
    assert caught.value.code == "R111"


def test_a_refused_directory_leaves_no_descriptor(workdirs: Workdirs, tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    (tmp_path / "roots").mkdir()
    for path in ("/etc", "/nonexistent", str(tmp_path / "roots")):
        with pytest.raises(Failed):
            workdirs.claim("one", Workdir(path, read_only=False))
    assert len(os.listdir("/proc/self/fd")) == before

from __future__ import annotations

from pathlib import Path

import pytest

from hostd.process.cgroups import (
    Cgroups,
    Hierarchies,
    ResourceLimits,
    directories_of,
    frozen_group,
    parse_mounts,
    settings_for,
    thaw,
    together,
)

NONE = ResourceLimits()

HYBRID = """\
30 25 0:27 / /sys/fs/cgroup rw - tmpfs tmpfs rw
31 30 0:28 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw,nsdelegate
32 30 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
33 30 0:30 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
34 30 0:31 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
"""
PURE = "31 30 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"


def test_on_a_hybrid_host_identity_is_v2_and_limits_are_v1() -> None:
    found = parse_mounts(HYBRID, frozenset())
    assert found.unified == Path("/sys/fs/cgroup/unified")
    assert found.limiting == {
        "memory": Path("/sys/fs/cgroup/memory"),
        "pids": Path("/sys/fs/cgroup/pids"),
        "cpu": Path("/sys/fs/cgroup/cpu,cpuacct"),
    }


def test_on_a_v2_host_both_are_one_directory() -> None:
    found = parse_mounts(PURE, frozenset({"memory", "pids"}))
    assert found.all() == [Path("/sys/fs/cgroup")]
    assert found.is_unified("memory")


def test_a_host_without_cgroups_has_none() -> None:
    assert parse_mounts("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n", frozenset()).all() == []


@pytest.mark.parametrize(
    ("controller", "v2", "expected"),
    [
        ("memory", True, {"memory.max": "1000"}),
        ("memory", False, {"memory.limit_in_bytes": "1000"}),
        ("pids", True, {"pids.max": "7"}),
        ("cpu", True, {"cpu.max": "150000 100000"}),
        ("cpu", False, {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "150000"}),
    ],
)
def test_limits_are_said_in_each_version_s_words(
    controller: str, v2: bool, expected: dict[str, str]
) -> None:
    limits = ResourceLimits(memory=1000, pids=7, cpus=1.5)
    assert settings_for(limits, controller, v2) == expected
    assert settings_for(ResourceLimits(), controller, v2) == {}


def test_groups_are_made_named_and_removed(tmp_path: Path) -> None:
    hierarchies = Hierarchies(tmp_path / "v2", {"pids": tmp_path / "pids"})
    groups = Cgroups("test", hierarchies, ResourceLimits(pids=70))
    joined = groups.make("abc-gate", ResourceLimits(pids=5))
    assert joined == (
        str(tmp_path / "v2/gitmoat-test/abc-gate"),
        str(tmp_path / "pids/gitmoat-test/abc-gate"),
    )
    assert (tmp_path / "pids/gitmoat-test/abc-gate/pids.max").read_text() == "5"
    assert groups.names() == {"abc-gate"}
    assert groups.identity("abc-gate") == Path(joined[0]).stat().st_ino
    assert (tmp_path / "pids/gitmoat-test/pids.max").read_text() == "70"
    for file in tmp_path.glob("pids/**/pids.max"):
        file.unlink()
    groups.remove("abc-gate")
    groups.remove("abc-gate")
    groups.remove_parent()
    assert groups.names() == set()


def test_sidecars_are_beside_what_all_sandboxes_may_have_together(tmp_path: Path) -> None:
    groups = Cgroups("test", Hierarchies(tmp_path, {"memory": tmp_path / "m"}), together(1000, 80))
    sandbox, sidecar = groups.make("a-sandbox", ResourceLimits()), groups.make("a-sidecar", NONE)
    assert sandbox[1] == str(tmp_path / "m/gitmoat-test/a-sandbox")
    assert sidecar[1] == str(tmp_path / "m/gitmoat-test-sidecars/a-sidecar")
    assert (tmp_path / "m/gitmoat-test/memory.limit_in_bytes").read_text() == "500"
    assert not list(tmp_path.glob("m/gitmoat-test-sidecars/*.*"))
    assert groups.names() == {"a-sandbox", "a-sidecar"}


def test_a_sidecars_group_of_an_earlier_version_is_found_where_that_made_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "gitmoat-test" / "a-sidecar").mkdir(parents=True)
    groups = Cgroups("test", Hierarchies(tmp_path, {}), NONE)
    assert groups.directories("a-sidecar") == (str(tmp_path / "gitmoat-test" / "a-sidecar"),)
    assert groups.names() == {"a-sidecar"}
    groups.remove("a-sidecar")
    assert groups.names() == set()


@pytest.mark.parametrize(
    ("memory", "left"), [(512 << 20, 256 << 20), (8 << 30, 7 << 30), (256 << 30, 252 << 30)]
)
def test_all_sandboxes_together_leave_memory_for_the_rest(memory: int, left: int) -> None:
    assert together(memory, 32768) == ResourceLimits(memory=left, pids=28672)


def test_a_process_is_joined_in_every_hierarchy_it_is_in() -> None:
    mountinfo = (
        "30 25 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
        "31 25 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "32 25 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"
        "33 25 0:29 /docker/other /elsewhere rw - cgroup cgroup rw,memory\n"
    )
    groups = "9:name=systemd:/docker/x\n4:cpu,cpuacct:/docker/x\n3:memory:/docker/x\n0::/docker/x\n"
    assert directories_of(groups, mountinfo) == (
        "/sys/fs/cgroup/systemd/docker/x",
        "/sys/fs/cgroup/cpu,cpuacct/docker/x",
        "/sys/fs/cgroup/unified/docker/x",
    )


@pytest.mark.parametrize(("name", "value", "stands"), [
    ("freezer.state", "FROZEN\n", True), ("freezer.state", "FREEZING\n", True),
    ("freezer.state", "THAWED\n", False), ("cgroup.freeze", "1\n", True),
    ("cgroup.freeze", "0\n", False), ("other", "1", False),
])  # fmt: skip
def test_a_group_that_stands_still_is_seen_and_set_free(
    tmp_path: Path, name: str, value: str, stands: bool
) -> None:
    (tmp_path / name).write_text(value)
    assert frozen_group([str(tmp_path)]) is stands
    thaw([str(tmp_path)])
    assert not frozen_group([str(tmp_path)])

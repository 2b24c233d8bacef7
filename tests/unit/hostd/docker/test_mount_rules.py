"""Mounts of somebody else's container: judged by device and path, in both directions."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from hostd.docker.mount_rules import (
    DockerMade,
    forbidden,
    locate,
    of_the_host,
    why_forbidden,
)
from hostd.process.proc import MountLine, Place, parse_mountinfo

HOST = """\
20 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
21 20 0:20 / /proc rw - proc proc rw
22 20 0:23 / /run rw - tmpfs tmpfs rw
23 20 254:1 / /srv/with\\040space rw - ext4 /dev/vdb rw
24 20 254:1 /sub /mnt/sub ro - ext4 /dev/vdb rw
25 20 0:5 / /dev rw - devtmpfs devtmpfs rw
26 25 0:24 / /dev/shm rw - tmpfs tmpfs rw
27 25 0:25 / /dev/pts rw - devpts devpts rw
28 20 0:26 / /sys rw - sysfs sysfs rw
29 28 0:27 / /sys/fs/cgroup rw - tmpfs tmpfs rw
30 29 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
31 20 254:1 /keys /etc/keys rw - ext4 /dev/vdb rw
"""
MOUNTS = parse_mountinfo(HOST)
HOLDER = "a" * 64
CONTAINER = "c" * 64


def place(device: str, path: str) -> Place:
    return Place(device, PurePosixPath(path))


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/", place("254:0", "/")),
        ("/etc/ssh", place("254:0", "/etc/ssh")),
        ("/run/docker.sock", place("0:23", "/docker.sock")),
        ("/srv/with space/x", place("254:1", "/x")),
        ("/mnt/sub/x", place("254:1", "/sub/x")),
        ("/runaway", place("254:0", "/runaway")),
    ],
)
def test_a_path_of_the_host_is_a_place_in_a_file_system(path: str, found: Place) -> None:
    assert locate(path, MOUNTS) == found


FORBIDDEN = [
    forbidden("/", "/", MOUNTS, below=False),
    *(forbidden(path, path, MOUNTS, below=True) for path in ("/etc", "/run", "/dev", "/sys")),
    forbidden("/var/run", "/run", MOUNTS, below=True),
]


@pytest.mark.parametrize(
    ("mounted", "why"),
    [
        (place("254:0", "/"), "/x is /"),
        (place("254:0", "/etc"), "/x is /etc"),
        (place("254:0", "/etc/ssh"), "/x lies in /etc"),
        (place("0:23", "/docker.sock"), "/x lies in /run"),
        (place("254:0", "/home/me/project"), None),
        (place("254:0", "/etcetera"), None),
        (place("254:9", "/etc"), None),
        # File systems of their own below a forbidden place.
        (place("0:24", "/"), "/x lies in /dev"),
        (place("0:24", "/deep"), "/x lies in /dev"),
        (place("0:25", "/0"), "/x lies in /dev"),
        (place("0:27", "/"), "/x lies in /sys"),
        (place("0:28", "/gitmoat"), "/x lies in /sys"),
        # Of one file system, what the host shows in a forbidden place as well.
        (place("254:1", "/keys"), "/x lies in /etc"),
        (place("254:1", "/keys/deep"), "/x lies in /etc"),
        (place("254:1", "/sub"), None),
    ],
)
def test_a_mount_is_refused_that_is_has_or_lies_in_a_forbidden_place(
    mounted: Place, why: str | None
) -> None:
    assert why_forbidden(MountLine(mounted, "/x", "ext4", False), FORBIDDEN, MOUNTS) == why


def test_a_mount_that_has_a_forbidden_place_in_it_is_refused() -> None:
    deep = [forbidden("/var/lib/docker", "/var/lib/docker", MOUNTS, below=True)]
    mount = MountLine(place("254:0", "/var"), "/x", "ext4", False)
    assert why_forbidden(mount, deep, MOUNTS) == "/x has /var/lib/docker"


def test_a_mount_over_which_the_host_has_mounted_a_forbidden_place_is_refused() -> None:
    other = [forbidden("/srv/with space/docker", "/srv/with space/docker", MOUNTS, below=True)]
    covered = [*MOUNTS, *parse_mountinfo("40 23 254:7 / /srv/with\\040space/docker rw - ext4 x rw")]
    mount = MountLine(place("254:1", "/"), "/x", "ext4", False)
    assert why_forbidden(mount, other, covered) == "/x has /srv/with space/docker"


def line(
    device: str, path: str, target: str, kind: str = "ext4", read_only: bool = False
) -> MountLine:
    return MountLine(place(device, path), target, kind, read_only)


def test_what_docker_mounts_into_every_container_is_its_own() -> None:
    docker = f"/var/lib/docker/containers/{HOLDER}"
    own = [
        line("0:50", "/", "/", "overlay"),
        line("0:30", f"/docker/{CONTAINER}", "/sys/fs/cgroup/cpu", "cgroup", read_only=True),
        line("0:28", f"/x/docker-{CONTAINER}.scope", "/sys/fs/cgroup", "cgroup2", read_only=True),
        line("254:0", f"{docker}/hosts", "/etc/hosts"),
        line("254:0", "/var/lib/docker/volumes/cache/_data", "/cache"),
    ]
    strange = [
        line("0:30", "/", "/groups", "cgroup"),
        line("0:30", f"/docker/{CONTAINER}", "/groups", "cgroup", read_only=True),
        line("0:30", "/", "/sys/fs/cgroup/cpu", "cgroup", read_only=True),
        line("0:30", f"/docker/{HOLDER}", "/sys/fs/cgroup/cpu", "cgroup", read_only=True),
        line("0:30", f"/docker/{CONTAINER}", "/sys/fs/cgroup/cpu", "cgroup"),
        line("254:0", "/etc/hosts", "/etc/hosts"),
        line("254:0", f"/var/lib/docker/containers/{'b' * 64}/hosts", "/etc/hosts"),
        line("254:0", "/var/lib/docker/volumes/bound/_data", "/v"),
        line("254:0", "/var/lib/docker/volumes/cache/_data/deep", "/v"),
    ]
    assert of_the_host([*own, *strange], DockerMade(CONTAINER, HOLDER, {"cache"})) == strange


def test_a_mount_is_one_line_whatever_its_name_has() -> None:
    (found,) = parse_mountinfo("40 23 254:7 / /srv/a\x0bb\u2028c ro - ext4 x rw\n")
    assert (found.target, found.read_only, found.options) == ("/srv/a\x0bb\u2028c", True, ("rw",))

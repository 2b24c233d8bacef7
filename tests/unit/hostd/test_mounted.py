"""Mounts of somebody else's container: judged by device and path, in both directions."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from hostd.mounted import (
    Forbidden,
    MountLine,
    Place,
    locate,
    of_the_host,
    parse_mountinfo,
    why_forbidden,
)

HOST = """\
20 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
21 20 0:20 / /proc rw - proc proc rw
22 20 0:23 / /run rw - tmpfs tmpfs rw
23 20 254:1 / /srv/with\\040space rw - ext4 /dev/vdb rw
24 20 254:1 /sub /mnt/sub ro - ext4 /dev/vdb rw
"""
MOUNTS = parse_mountinfo(HOST)
HOLDER = "a" * 64


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
    Forbidden("/", place("254:0", "/"), below=False),
    Forbidden("/etc", place("254:0", "/etc")),
    Forbidden("/run", place("0:23", "/")),
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
    ],
)
def test_a_mount_is_refused_that_is_has_or_lies_in_a_forbidden_place(
    mounted: Place, why: str | None
) -> None:
    assert why_forbidden(MountLine(mounted, "/x", "ext4", False), FORBIDDEN) == why


def test_a_mount_that_has_a_forbidden_place_in_it_is_refused() -> None:
    deep = [Forbidden("/var/lib/docker", place("254:0", "/var/lib/docker"))]
    mount = MountLine(place("254:0", "/var"), "/x", "ext4", False)
    assert why_forbidden(mount, deep) == "/x has /var/lib/docker"


def line(device: str, path: str, target: str, kind: str = "ext4") -> MountLine:
    return MountLine(place(device, path), target, kind, False)


def test_what_docker_mounts_into_every_container_is_its_own() -> None:
    docker = f"/var/lib/docker/containers/{HOLDER}"
    own = [
        line("0:50", "/", "/", "overlay"),
        line("0:30", "/docker/x", "/sys/fs/cgroup/cpu", "cgroup"),
        line("254:0", f"{docker}/hosts", "/etc/hosts"),
        line("254:0", "/var/lib/docker/volumes/cache/_data", "/cache"),
    ]
    strange = [
        line("0:30", "/", "/groups", "cgroup"),
        line("254:0", "/etc/hosts", "/etc/hosts"),
        line("254:0", f"/var/lib/docker/containers/{'b' * 64}/hosts", "/etc/hosts"),
        line("254:0", "/var/lib/docker/volumes/bound/_data", "/v"),
        line("254:0", "/var/lib/docker/volumes/cache/_data/deep", "/v"),
    ]
    assert of_the_host([*own, *strange], HOLDER, {"cache"}) == strange

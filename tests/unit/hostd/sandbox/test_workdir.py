"""Which directories are never a sandbox's, by name; and what a request may say."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitmoat.paths import Paths
from hostd.failures import Failed
from hostd.sandbox.forbidden_places import why_not
from hostd.sandbox.workdir import Workdir, parse_workdir

OURS = Paths("/srv/moat")


@pytest.fixture
def harmless(tmp_path: Path) -> Iterator[int]:
    """So that only the name is judged."""
    descriptor = os.open(tmp_path, os.O_PATH)
    yield descriptor
    os.close(descriptor)


@pytest.mark.parametrize(
    "path",
    [
        "/", "/proc/1", "/sys", "/dev/shm/x", "/etc/x", "/var", "/var/lib", "/var/lib/docker/x",
        "/var/lib/gitmoat", "/var/lib/gitmoat/hostd/sandboxes/x/workspace", "/run/x", "/root",
        "/home", "/srv/moat", "/srv/moat/run/gitmoat/wd", "/srv/moat/var/lib", "/srv",
        "/srv/moat/etc/gitmoat/policies", "/var/log/gitmoat", "/home/a/.ssh", "/root/.aws/x",
        "/home/a/.config/gh", "/home/a/.docker", "/x/.kube/y/z",
    ],
)  # fmt: skip
def test_names_that_are_off_limits(path: str, harmless: int) -> None:
    assert why_not(path, harmless, OURS)


@pytest.mark.parametrize(
    "path",
    ["/root/project", "/home/a/project", "/srv/work", "/tmp/x", "/home/a/.config/x", "/etcetera",
     "/var/lib/other", "/srv/moatless", "/home/a/ssh", "/opt/x"],
)  # fmt: skip
def test_names_that_are_not(path: str, harmless: int) -> None:
    assert why_not(path, harmless, OURS) is None


def test_a_request_names_an_absolute_path_in_its_shortest_spelling() -> None:
    assert parse_workdir(None) is None
    good = {"path": "/srv/w", "read_only": True}
    assert parse_workdir(good) == Workdir("/srv/w", read_only=True)
    bad: list[dict[str, Any]] = [
        good | {"path": path}
        for path in ("w", "", "//srv", "/srv/", "/srv/../etc", "/srv/./x", "/s\0r", None, 7)
    ]
    for body in [*bad, {"path": "/srv"}, good | {"more": 1}, good | {"read_only": 1}]:
        with pytest.raises(Failed) as caught:
            parse_workdir(body)
        assert caught.value.exit_code == 2


def test_a_record_keeps_which_directory_it_was() -> None:
    workdir = Workdir("/srv/w", True, 5, 7)
    assert Workdir.from_json(workdir.to_json()) == workdir
    assert Workdir.from_json(None) is None

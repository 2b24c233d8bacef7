"""Every release can be built again: its commit is there, and says the version."""

from __future__ import annotations

import configparser
import re

import pytest

from gitmoat.version import VERSION
from tests.releases import Release, git, releases


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def test_releases_are_named_by_version_and_whole_commit_in_their_order() -> None:
    found = releases()
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", each.version) for each in found)
    assert all(re.fullmatch(r"[0-9a-f]{40}", each.commit) for each in found)
    versions = [numbers(each.version) for each in found]
    assert versions == sorted(set(versions)) and versions[-1] <= numbers(VERSION)


@pytest.mark.history
@pytest.mark.parametrize("release", releases(), ids=lambda each: each.version)
def test_a_releases_commit_is_in_the_history_and_says_its_version(release: Release) -> None:
    assert git("merge-base", "--is-ancestor", release.commit, "HEAD").returncode == 0
    setup = configparser.ConfigParser()
    setup.read_string(git("show", f"{release.commit}:setup.cfg").stdout.decode())
    assert setup["metadata"]["version"] == release.version

"""git's tree, and its suite as it runs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.git_suite.suite import Suite, running
from tests.peers.git_suite.tree import Tree, unpacked


@pytest.fixture(scope="session")
def tree() -> Iterator[Tree]:
    with tempfile.TemporaryDirectory(prefix="gm-git-") as directory:
        os.chmod(directory, 0o755)
        yield unpacked(Path(directory))


@pytest.fixture(scope="session")
def suite(request: pytest.FixtureRequest, tree: Tree) -> Iterator[Suite]:
    """Of the scripts whose tests will run."""
    items = [each for each in request.session.items if isinstance(each, pytest.Function)]
    ours = [each for each in items if "suite" in each.fixturenames]
    long = any(each.get_closest_marker("long") for each in ours)
    scripts = [str(each.callspec.params["script"]) for each in ours]
    with running(tree, scripts, {"GIT_TEST_LONG": "true"} if long else {}) as begun:
        yield begun

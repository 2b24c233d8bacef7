"""git's own tests of HTTP: through us they give what they give without us, but for known.toml."""

from __future__ import annotations

import pytest

from tests.peers.git_suite import table
from tests.peers.git_suite.scripts import skipped_whole, using_http
from tests.peers.git_suite.suite import Both, Suite
from tests.peers.git_suite.tree import Tree, installed_version

KNOWN = table.read(table.KNOWN.read_text(encoding="utf-8"))
# Which have tests that git itself leaves out unless it is told to take long.
EXPENSIVE = {"t5551-http-fetch-smart": 1}


def test_every_script_of_git_that_uses_http_is_run(tree: Tree) -> None:
    assert installed_version() == KNOWN.version
    assert using_http(tree.scripts) == sorted(KNOWN.scripts)


@pytest.mark.parametrize("script", KNOWN.scripts)
def test_git_passes_through_us_what_it_passes_without(suite: Suite, script: str) -> None:
    wrong = wrongs(suite.results[script].result(), script)
    assert not wrong, "\n".join([script, *wrong])


@pytest.mark.long
@pytest.mark.parametrize("script", EXPENSIVE)
def test_git_passes_what_takes_long(suite: Suite, script: str) -> None:
    wrong = wrongs(suite.results[script].result(), script, EXPENSIVE[script])
    assert not wrong, "\n".join([script, *wrong])


def wrongs(both: Both, script: str, more: int = 0) -> list[str]:
    """Also what the commands of tests did that should not have failed."""
    assert both.direct.whole, skipped_whole(both.direct.tap) or both.direct.tap[-3000:]
    direct, through = both.direct.points, both.through.points
    failed = [point for point in direct if point.result == "failed"]
    assert not failed, "\n".join(both.direct.about(point.number) for point in failed)
    found = table.differences(script, direct, through)
    listed = {row.difference for row in KNOWN.of(script)}
    wrong = table.verdict(KNOWN, script, found, table.passing(through) - more)
    return wrong + [both.through.about(each.number) for each in found if each not in listed]

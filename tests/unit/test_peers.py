"""What `make peers` decides with: checksums, which tests differ, and which of that is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers import cache
from tests.peers.git_suite import table
from tests.peers.git_suite.scripts import Point, Said, points, using_http
from tests.peers.source_package import as_source

HELLO = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
TAP = """\
ok 1 - setup
not ok 2 - push # of a branch
#	git push
ok 3 # skip progress (missing TTY)
not ok 4 - cas # TODO known breakage
ok 5 - clone # TODO known breakage vanished
# failed 1 among 5 test(s)
1..5
"""
DIFFERS = table.Difference("t1-a", 2, "passed", "failed", "push")
TABLE = (
    'git = "2.0"\n[t1-a]\npassing = 3\ndiffers = [\n  [2, "passed/failed", "dumb", "push"],\n]\n'
)


class Writer:
    """Stands in for a fetch or a build; counts."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.times = 0

    def __call__(self, into: Path) -> None:
        self.times += 1
        (into / "file").write_text(self.text)


def test_a_file_is_fetched_once_and_compared_each_time(tmp_path: Path) -> None:
    fetch = Writer("hello")
    for _ in range(2):
        assert cache.fetched("file", fetch, tmp_path, {"file": HELLO}) == tmp_path / "file"
    assert fetch.times == 1
    (tmp_path / "file").write_text("hullo")
    with pytest.raises(cache.PeerMissing, match="has the checksum"):
        cache.fetched("file", fetch, tmp_path, {"file": HELLO})


def test_another_file_than_the_pinned_one_is_not_kept(tmp_path: Path) -> None:
    with pytest.raises(cache.PeerMissing, match="has the checksum"):
        cache.fetched("file", Writer("hullo"), tmp_path, {"file": HELLO})
    with pytest.raises(cache.PeerMissing, match="is not in checksums"):
        cache.fetched("other", Writer("hello"), tmp_path, {"file": HELLO})
    with pytest.raises(cache.PeerMissing, match="was not to be had"):
        cache.fetched("other", Writer("hello"), tmp_path, {"other": HELLO})
    assert list(tmp_path.iterdir()) == []


def test_a_build_is_kept_until_what_it_is_made_of_changes(tmp_path: Path) -> None:
    build = Writer("built")
    first = cache.built("file", "source 1", build, tmp_path)
    assert cache.built("file", "source 1", build, tmp_path) == first
    assert build.times == 1
    assert cache.built("file", "source 2", build, tmp_path) != first
    first.write_text("something else")
    with pytest.raises(cache.PeerMissing, match="has the checksum"):
        cache.built("file", "source 1", build, tmp_path)


def test_a_cache_that_others_can_write_to_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.cache() == tmp_path / "gitmoat-peers"
    cache.cache().chmod(0o777)
    with pytest.raises(cache.PeerMissing, match="only its owner"):
        cache.cache()


def test_sources_are_turned_into_sources_of_sources() -> None:
    deb822 = "# Types: deb\nTypes: deb deb-src\nURIs: http://a.example\nSuites: s\n"
    assert as_source(deb822, "sources") == deb822.replace("Types: deb deb-src", "Types: deb-src")
    lines = "# deb http://no.example s main\ndeb [arch=x] http://a.example s main\n"
    lines += "deb-src http://b.example s main\n"
    assert as_source(lines, "list") == "deb-src [arch=x] http://a.example s main\n"


def test_what_a_script_says_is_read() -> None:
    assert points(TAP) == [
        Point(1, "setup", "passed"),
        Point(2, "push # of a branch", "failed"),
        Point(3, "progress (missing TTY)", "skipped"),
        Point(4, "cas", "broken"),
        Point(5, "clone", "passed"),
    ]
    assert Said(TAP, "").whole
    assert not Said("ok 1 - setup\n", "").whole
    assert not Said("1..0 # SKIP no web server found\n", "").whole


def test_scripts_that_use_http_are_found_by_what_they_source(tmp_path: Path) -> None:
    for name, text in {
        "lib-httpd.sh": "start_httpd () {\n",
        "lib-git-svn.sh": '. "$TEST_DIRECTORY"/lib-httpd.sh\n',
        "t1-a.sh": '. ./test-lib.sh\n. "$TEST_DIRECTORY"/lib-httpd.sh\n',
        "t2-b.sh": "LIB_HTTPD_SSL=1\n. ./t1-a.sh\n",
        "t3-c.sh": "# . lib-httpd.sh\n. ./test-lib.sh\n",
        "t4-d.sh": ". ./lib-git-svn.sh\n",
    }.items():
        (tmp_path / name).write_text(text)
    assert using_http(tmp_path) == ["t1-a", "t2-b"]


def test_a_difference_must_be_listed_and_a_listed_one_must_be_there() -> None:
    listed = table.read(TABLE)
    assert table.verdict(listed, "t1-a", [DIFFERS], 3) == []
    other = table.Difference("t1-a", 4, "passed", "missing", "fetch")
    assert table.verdict(listed, "t1-a", [DIFFERS, other], 3) == [
        'differs, and is not listed: [4, "passed/missing", "?", "fetch"]'
    ]
    assert table.verdict(listed, "t1-a", [], 4) == [
        'does not differ any more as listed: [2, "passed/failed", "dumb", "push"]',
        "4 pass, not 3",
    ]


def test_tests_are_compared_by_their_numbers() -> None:
    direct = [Point(1, "a", "passed"), Point(2, "push", "passed"), Point(3, "c", "skipped")]
    through = [Point(1, "a", "passed"), Point(2, "push", "failed")]
    gone = table.Difference("t1-a", 3, "skipped", "missing", "c")
    assert table.differences("t1-a", direct, through) == [DIFFERS, gone]
    assert table.passing(through) == 1


def test_a_reason_is_one_of_the_list() -> None:
    with pytest.raises(ValueError, match="is not one of the reasons"):
        table.read(TABLE.replace("dumb", "?"))


def test_the_table_is_about_what_is_pinned_and_each_reason_is_needed() -> None:
    listed = table.read(table.KNOWN.read_text(encoding="utf-8"))
    assert f"git_{listed.version}.orig.tar.xz" in cache.checksums()
    assert {row.reason for row in listed.rows} == table.REASONS.keys()
    numbers = [(row.difference.script, row.difference.number) for row in listed.rows]
    assert len(numbers) == len(set(numbers))
    assert all(row.difference.script in listed.scripts for row in listed.rows)

"""The table "What git shows": each refusal in the shape whose text git prints."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fidelity.arena import Arena
from tests.stage.boxes import Box, box_maker
from tests.stage.command import Ran
from tests.stage.gitmoat import Gitmoat
from tests.stage.repositories import commit_upstream, refs

POLICY = """\
version = 1
name = "{name}"
[limits]
{limits}
[[git]]
repos = ["demo:shown/one", "dead:shown/one"]
fetch = true
push = {{ branches = ["agent/**"] }}
who = ["helper", "untrusted"]
"""
LIMITS = {
    "open": "git_requests_per_minute = 10000",
    "slow": "git_requests_per_minute = 1",
    "paced": "git_requests_per_minute = 30",
    "tight": 'fetch_max = "4KiB"\npush_max = "4KiB"',
}
HISTORY = 77
NEW = """
cd && rm -rf c && git init -q -b agent/x c && cd c && head -c $2 /dev/urandom > f && git add f
git commit -qm x && git push "$1" HEAD:refs/heads/agent/$3
"""


@pytest.fixture(scope="module")
def boxes(arena: Arena) -> Iterator[dict[str, Box]]:
    stage = arena.stage
    arena.templates.copy("plain", "shown/one")
    commit_upstream(stage, "refs/heads/noise", noise(), "shown/one")
    dead = ("upstream", "add", "dead", "--url", "https://localhost:1", "--cred", "demo")
    stage.hostctl(*dead).expect_success("upstream add")
    with box_maker(stage) as make:
        found = {}
        for name, limits in LIMITS.items():
            path = stage.paths.policies / f"{name}.toml"
            path.write_text(POLICY.format(name=name, limits=limits))
            found[name] = make("--policy", name, repo=None)
        yield found


def noise() -> str:
    """More than the tight limit, whatever compresses it."""
    return "".join(f"{number * 2654435761 % 2**32:08x}" for number in range(5000))


def push(box: Box, stage: Gitmoat, size: int, branch: str) -> Ran:
    return box.sh(NEW, stage.url("shown/one"), str(size), branch)


def test_a_repository_that_is_not_allowed(arena: Arena, boxes: dict[str, Box]) -> None:
    ran = boxes["open"].run("git", "ls-remote", arena.stage.url("shown/other"))
    assert ran.code == 128
    assert "remote: gitmoat: this repository is not available here (G101)\n" in ran.err
    assert "remote: allowed: demo:shown/one, dead:shown/one: fetch; push agent/**\n" in ran.err
    assert "remote: request id: " in ran.err and "not found" in ran.err


def test_an_upstream_that_is_down(boxes: dict[str, Box]) -> None:
    ran = boxes["open"].run("git", "ls-remote", "https://localhost:1/shown/one.git")
    assert ran.code == 128
    assert "remote: gitmoat: the git server cannot be reached (U101)\n" in ran.err
    assert "The requested URL returned error: 502" in ran.err


def test_too_many_requests(arena: Arena, boxes: dict[str, Box]) -> None:
    """Five minutes' worth is served; what comes after would have to wait for a minute."""
    said = "gitmoat: too many git requests; try again later (G303)\n"
    box, url = boxes["slow"], arena.stage.url("shown/one")
    for _ in range(4):
        box.run("git", "-c", "protocol.version=0", "ls-remote", url).expect_success("ls-remote")
    first = box.run("git", "-c", "protocol.version=2", "ls-remote", url)
    assert first.code == 128 and f"fatal: remote error: {said}" in first.err
    second = box.run("git", "ls-remote", url)
    assert second.code == 128 and f"remote: {said}" in second.err
    assert "The requested URL returned error: 429" in second.err


def test_a_look_into_the_history_of_a_partial_clone(arena: Arena, boxes: dict[str, Box]) -> None:
    """Git asks for each old version of a file when it comes to it: two requests for each."""
    stage, box, name = arena.stage, boxes["paced"], "shown/one"
    for number in range(HISTORY):
        commit_upstream(stage, "refs/heads/history", f"version {number}\n", name)
    script = """cd && rm -rf p && git clone -q --filter=blob:none -b history "$1" p && cd p
    GIT_TRACE_CURL=$PWD/../trace git log -p -- more.txt
    echo requests: $(grep -c '=> Send header: [GP].* HTTP/1.1' ../trace)"""
    ran = box.sh(script, stage.url(name))
    ran.expect_success("git log")
    assert all(f"+version {number}\n" in ran.out for number in range(HISTORY))
    asked = int(ran.out.rpartition("requests: ")[2])
    assert asked > 150, "they are more than a policy of 30 a minute has at once"


@pytest.mark.parametrize("version", ["0", "2"])
def test_a_fetch_that_is_too_large(arena: Arena, boxes: dict[str, Box], version: str) -> None:
    url = arena.stage.url("shown/one")
    options = ("-c", f"protocol.version={version}", "clone", "-q", "--bare", "-b", "noise")
    ran = boxes["tight"].run("git", *options, url, f"/home/sandbox/{version}.git")
    assert ran.code == 128
    assert "gitmoat: the fetch is too large (G302)" in ran.err, ran.err


@pytest.mark.parametrize("size", [100_000, 3_000_000])
def test_a_push_that_is_too_large(arena: Arena, boxes: dict[str, Box], size: int) -> None:
    """One that says so in its length, and one that is found out on the way."""
    ran = push(boxes["tight"], arena.stage, size, f"large-{size}")
    assert ran.code == 1
    assert "remote: gitmoat: the push is too large (G301)" in ran.err
    assert "(the push is too large (G301))" in ran.err
    assert f"refs/heads/agent/large-{size}" not in refs(arena.stage, "shown/one")


def test_a_session_that_has_ended(arena: Arena, boxes: dict[str, Box]) -> None:
    box, stage = boxes["open"], arena.stage
    assert push(box, stage, 100, "before").code == 0
    stage.hostctl("session", "revoke", box.name).expect_success("revoke")
    for ran in (
        box.run("git", "ls-remote", stage.url("shown/one")),
        push(box, stage, 100, "after"),
    ):
        assert ran.code == 128
        assert "remote: gitmoat: this session has ended (S101)\n" in ran.err
    assert "refs/heads/agent/after" not in refs(stage, "shown/one")

"""What git clients do differently: protocol versions, shallow and partial clones, other formats."""

from __future__ import annotations

import uuid

import pytest

from tests.stage.boxes import Box, Clone
from tests.stage.gitmoat import Gitmoat
from tests.stage.repositories import (
    bare,
    commit_upstream,
    create_repository,
    git,
    make_empty,
    reaching_upstream,
    refs,
    shapes,
)

ONE = "play/one"


@pytest.fixture
def fresh(stage: Gitmoat) -> str:
    """The name of a repository with one commit that only this test uses."""
    name = f"play/{uuid.uuid4().hex[:10]}"
    create_repository(stage.upstream.repositories, name, {"a.txt": b"a\n", "b.txt": b"b\n"})
    return name


@pytest.mark.parametrize("version", ["0", "1", "2"])
def test_every_protocol_version_clones_fetches_and_pushes(
    player: Box, stage: Gitmoat, fresh: str, version: str
) -> None:
    clone = player.clone(fresh, "-c", f"protocol.version={version}")
    assert clone.ask("rev-parse", "HEAD") == refs(stage, fresh)["refs/heads/main"]
    new = commit_upstream(stage, "refs/heads/main", "new", fresh)
    clone.ask("fetch", "-q")
    assert clone.ask("rev-parse", "origin/main") == new
    commit = clone.commit("agent/x", kib=5)
    clone.ask("push", "-q", "origin", "agent/x")
    assert refs(stage, fresh)["refs/heads/agent/x"] == commit


def test_protocol_0_needs_one_request_less_upstream(player: Box, stage: Gitmoat) -> None:
    """What was asked for goes upstream: version 2 lists refs in a request of its own."""
    for version, posts in (("0", 1), ("2", 2)):
        with reaching_upstream(stage) as requests:
            player.clone(ONE, "-c", f"protocol.version={version}")
        expected = ["GET refs?service=git-upload-pack", *["POST git-upload-pack"] * posts]
        assert shapes(requests) == expected


def test_a_push_above_a_small_post_buffer_is_chunked_and_arrives(
    player: Box, stage: Gitmoat, fresh: str
) -> None:
    clone = player.clone(fresh)
    commit = clone.commit("agent/x", kib=200)
    clone.ask("-c", "http.postBuffer=65536", "push", "-q", "origin", "agent/x")
    assert refs(stage, fresh)["refs/heads/agent/x"] == commit


def test_a_long_request_for_a_fetch_is_compressed_by_git_and_served(
    player: Box, stage: Gitmoat, fresh: str
) -> None:
    """Above 1 KiB git compresses its request; here by the lines for 60 branches."""
    wanted = {f"refs/heads/b{number}": number for number in range(60)}
    for ref, number in wanted.items():
        commit_upstream(stage, ref, f"content {number}", fresh)
    script = 'GIT_TRACE_CURL=1 GIT_TRACE_CURL_NO_DATA=1 git clone "$1" "$HOME/$2"'
    ran = player.sh(script, stage.url(fresh), uuid.uuid4().hex)
    assert ran.code == 0, ran.err
    assert "content-encoding: gzip" in ran.err.lower()


def test_a_shallow_clone_has_one_commit_and_can_be_deepened(
    player: Box, stage: Gitmoat, fresh: str
) -> None:
    for number in range(3):
        commit_upstream(stage, "refs/heads/main", f"{number}", fresh)
    clone = player.clone(fresh, "--depth", "1")
    assert clone.ask("rev-list", "--count", "HEAD") == "1"
    commit = clone.commit("agent/x")
    clone.ask("push", "-q", "origin", "agent/x")
    assert refs(stage, fresh)["refs/heads/agent/x"] == commit
    clone.ask("fetch", "-q", "--unshallow")
    assert clone.ask("rev-list", "--count", "origin/main") == "4"


def test_a_partial_clone_fetches_its_blobs_when_they_are_needed(
    player: Box, stage: Gitmoat, fresh: str
) -> None:
    for key in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
        git("--git-dir", str(bare(stage, fresh)), "config", key, "true")
    clone = player.clone(fresh, "--filter=blob:none", "--no-checkout")
    missing = ("rev-list", "--objects", "--missing=print", "HEAD")
    assert sum(line.startswith("?") for line in clone.ask(*missing).splitlines()) == 2
    with reaching_upstream(stage) as requests:
        assert clone.ask("cat-file", "-p", "HEAD:a.txt") == "a"
    assert shapes(requests)[-1] == "POST git-upload-pack"
    clone.ask("checkout", "-q", "main")
    assert "?" not in clone.ask(*missing)


def test_an_empty_repository_is_cloned_and_gets_its_first_commit(
    player: Box, stage: Gitmoat
) -> None:
    make_empty(stage, "play/empty")
    clone = player.clone("play/empty")
    commit = clone.commit("main")
    clone.ask("push", "-q", "origin", "main")
    assert refs(stage, "play/empty") == {"refs/heads/main": commit}


def test_a_sha256_repository_is_cloned_and_pushed_to(player: Box, stage: Gitmoat) -> None:
    make_empty(stage, "play/sha256", "--object-format=sha256")
    directory = f"/tmp/{uuid.uuid4().hex}"
    player.run("git", "init", "-q", "--object-format=sha256", directory).expect_success("init")
    first = Clone(player, directory).commit("main")
    Clone(player, directory).ask("push", "-q", stage.url("play/sha256"), "main")
    clone = player.clone("play/sha256")
    second = clone.commit("agent/x")
    clone.ask("push", "-q", "origin", "agent/x")
    found = {"refs/heads/agent/x": second, "refs/heads/main": first}
    assert refs(stage, "play/sha256") == found
    assert len(second) == 64
    refused = clone.git("push", "origin", "HEAD:refs/heads/other")
    assert " ! [remote rejected] HEAD -> other (pushing to this ref" in refused.err


def test_push_options_are_refused_in_words_before_anything_goes_upstream(
    player: Box, stage: Gitmoat, fresh: str
) -> None:
    git("--git-dir", str(bare(stage, fresh)), "config", "receive.advertisePushOptions", "true")
    clone = player.clone(fresh)
    clone.commit("agent/x")
    with reaching_upstream(stage) as requests:
        ran = clone.git("push", "--push-option=ci.skip", "origin", "agent/x")
    assert ran.code == 1
    assert "! [remote rejected] agent/x -> agent/x" in ran.err and "(G204)" in ran.err
    assert shapes(requests) == ["GET refs?service=git-receive-pack"]
    assert refs(stage, fresh).keys() == {"refs/heads/main"}

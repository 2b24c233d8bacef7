"""Split mode: the git gate fetches and pushes for the owner, the command has no git network."""

from __future__ import annotations

import uuid

import pytest

from tests.stage.boxes import Box, MakeBox, told
from tests.stage.gitmoat import Gitmoat
from tests.stage.repositories import (
    ALLOWED,
    FORBIDDEN,
    bare,
    commit_upstream,
    git,
    make_empty,
    objects,
    reaching_upstream,
    refs,
    shapes,
)

ADDRESS = "http://127.0.0.1:418/HOST/acme/app.git"
COMMIT = """
cd "${2:-/workspace}" && git checkout -q -B "$1" && date +%N > result.txt && git add result.txt &&
git commit -q -m "Result" && git rev-parse HEAD
"""


def commit(box: Box, branch: str, directory: str = "/workspace") -> str:
    return box.sh(COMMIT, branch, directory).expect_success("git commit")


def workspace(box: Box, *words: str) -> str:
    return box.run("git", *words).expect_success(f"git {words[0]}")


def packed(box: Box) -> dict[str, int]:
    lines = (line.split(": ") for line in workspace(box, "count-objects", "-v").splitlines())
    return {name: int(value) for name, value in lines if name in ("in-pack", "packs")}


@pytest.fixture
def ci_branch() -> str:
    return f"ci/{uuid.uuid4().hex[:10]}"


def test_the_first_command_finds_the_workspace_checked_out(stage: Gitmoat) -> None:
    script = "git rev-parse HEAD origin/main && git status -sb && cat README.md"
    ran = stage.hostctl("run", "--rm", "--repo", stage.url(ALLOWED), "--", "sh", "-ec", script)
    head = refs(stage)["refs/heads/main"]
    lines = ran.expect_success("run").splitlines()
    assert lines[:3] == [head, head, "## main...origin/main"]


def test_the_commands_own_git_has_no_network_and_is_told_why(split: Box, stage: Gitmoat) -> None:
    with reaching_upstream(stage) as requests:
        for words in (["fetch"], ["ls-remote"], ["push", "origin", "HEAD:ci/x"], ["pull"]):
            ran = split.run("git", *words)
            assert ran.code != 0
            assert told(ran, stage) == [
                "remote: gitmoat: this repository is not available here (G101)",
                "remote: allowed: no git network for this process;"
                " the sandbox's owner fetches and pushes",
                "remote: request id: ID",
                "fatal: repository 'http://127.0.0.1:419/HOST/acme/app.git/' not found",
            ]
    assert requests == []


def test_ls_remote_shows_what_upstream_has(split: Box, stage: Gitmoat) -> None:
    listed = split.git("ls-remote").expect_success("ls-remote").splitlines()
    found = {name: oid for oid, name in (line.split("\t") for line in listed) if name != "HEAD"}
    assert found == refs(stage)
    one = split.git("ls-remote", "origin", "main").expect_success("ls-remote")
    assert one.split() == [refs(stage)["refs/heads/main"], "refs/heads/main"]


def test_a_fetch_brings_new_commits_as_origins_branches(split: Box, stage: Gitmoat) -> None:
    ref = f"refs/heads/{uuid.uuid4().hex[:10]}"
    before = workspace(split, "rev-parse", "HEAD")
    new = commit_upstream(stage, ref, "news")
    split.git("fetch").expect_success("fetch")
    assert workspace(split, "rev-parse", ref.replace("heads", "remotes/origin")) == new
    assert workspace(split, "rev-parse", "HEAD") == before
    assert workspace(split, "fsck", "--strict", "--no-dangling") == ""


def test_a_second_fetch_carries_only_what_is_new(split: Box, stage: Gitmoat) -> None:
    """Seen in the workspace: each fetch adds a pack with just the new objects."""
    split.git("fetch").expect_success("fetch")
    commit_upstream(stage, "refs/heads/main", f"more {uuid.uuid4().hex}")
    before = packed(split)
    split.git("fetch").expect_success("fetch")
    after = packed(split)
    # commit, tree and blob, and what completes a thin pack
    assert 3 <= after["in-pack"] - before["in-pack"] <= 5
    assert after["packs"] == before["packs"] + 1
    split.git("fetch").expect_success("fetch")
    assert packed(split) == after


def test_a_branch_that_became_a_directory_upstream_can_be_fetched(
    split: Box, stage: Gitmoat
) -> None:
    name = uuid.uuid4().hex[:10]
    commit_upstream(stage, f"refs/heads/{name}", "one branch")
    split.git("fetch").expect_success("fetch")
    git("--git-dir", str(bare(stage, ALLOWED)), "update-ref", "-d", f"refs/heads/{name}")
    below = commit_upstream(stage, f"refs/heads/{name}/first", "many branches")
    split.git("fetch").expect_success("fetch")
    listed = workspace(split, "for-each-ref", "--format=%(refname) %(objectname)")
    found = [line for line in listed.splitlines() if name in line]
    assert found == [f"refs/remotes/origin/{name}/first {below}"]


def test_a_named_branch_is_pushed(split: Box, stage: Gitmoat, ci_branch: str) -> None:
    new = commit(split, ci_branch)
    with reaching_upstream(stage) as requests:
        ran = split.git("push", "origin", ci_branch)
    assert ran.code == 0
    assert told(ran, stage) == [f"To {ADDRESS}", f" * [new branch]      {new} -> {ci_branch}"]
    assert refs(stage)[f"refs/heads/{ci_branch}"] == new
    assert workspace(split, "rev-parse", f"refs/remotes/origin/{ci_branch}").strip() == new
    assert shapes(requests) == ["GET refs?service=git-receive-pack", "POST git-receive-pack"]
    assert all(entry.authorization for entry in requests)


def test_head_is_pushed_to_the_branch_it_is_on(split: Box, stage: Gitmoat, ci_branch: str) -> None:
    first = commit(split, ci_branch)
    split.git("push", "origin", "HEAD").expect_success("push")
    assert refs(stage)[f"refs/heads/{ci_branch}"] == first
    second = commit(split, ci_branch)
    split.git("push").expect_success("push")
    assert refs(stage)[f"refs/heads/{ci_branch}"] == second


TAGS = """
cd /workspace && git tag "light-$1" && git tag -a -m Message "whole-$1" &&
git rev-parse "light-$1" "whole-$1"
"""
TAGGING = """\
version = 1
name = "tagging"
[[git]]
id = "tags"
repos = ["demo:acme/app"]
fetch = true
push = { branches = ["ci/**"], tags = ["**"], delete = true }
who = ["helper"]
"""


def test_a_tag_stays_a_tag_and_an_annotated_one_takes_its_object_along(
    make_box: MakeBox, stage: Gitmoat
) -> None:
    (stage.paths.policies / "tagging.toml").write_text(TAGGING)
    box, name = make_box("--policy", "tagging"), uuid.uuid4().hex[:8]
    light, whole = box.sh(TAGS, name).expect_success("git tag").split()
    pushed = box.git("push", "origin", f"light-{name}", f"whole-{name}", f"whole-{name}:v-{name}")
    pushed.expect_success("push")
    there = {ref: oid for ref, oid in refs(stage).items() if name in ref}
    assert there == {
        f"refs/tags/light-{name}": light,
        f"refs/tags/whole-{name}": whole,
        f"refs/tags/v-{name}": whole,
    }
    assert git("--git-dir", str(bare(stage, ALLOWED)), "cat-file", "-t", whole) == "tag"
    box.git("push", "origin", f":light-{name}").expect_success("delete")
    assert f"refs/tags/light-{name}" not in refs(stage)


def test_a_name_of_a_branch_and_a_tag_is_refused(
    split: Box, stage: Gitmoat, ci_branch: str
) -> None:
    commit(split, ci_branch)
    workspace(split, "tag", ci_branch)
    with reaching_upstream(stage) as requests:
        ran = split.git("push", "origin", ci_branch)
    assert ran.code == 4
    error, _, fix = ran.err.splitlines()
    assert error == f"error: {ci_branch!r} is the name of a branch and of a tag [R105]"
    assert fix.endswith(f"refs/heads/{ci_branch} or refs/tags/{ci_branch}")
    assert requests == []
    split.git("push", "origin", f"refs/heads/{ci_branch}").expect_success("push")


def test_a_revision_is_pushed_to_the_branch_that_the_owner_names(
    split: Box, stage: Gitmoat, ci_branch: str
) -> None:
    new = commit(split, "anything")
    split.git("push", "origin", f"HEAD:{ci_branch}").expect_success("push")
    assert refs(stage)[f"refs/heads/{ci_branch}"] == new


def test_a_refused_ref_ends_with_git_s_own_rejection(split: Box, stage: Gitmoat) -> None:
    split.run("git", "checkout", "-q", "-B", "fresh", "origin/main").expect_success("checkout")
    commit(split, "fresh")
    split.git("fetch").expect_success("fetch")
    before = (refs(stage), objects(stage))
    with reaching_upstream(stage) as requests:
        ran = split.git("push", "origin", "HEAD:main")
    assert ran.code == 1
    assert told(ran, stage)[:4] == [
        "remote: gitmoat: pushing to this ref is not allowed (G201)",
        "remote: allowed: demo:acme/app: fetch; push ci/**",
        "remote: request id: ID",
        f"To {ADDRESS}",
    ]
    assert "-> main (pushing to this ref is not allowed (G201))" in ran.err
    assert shapes(requests) == ["GET refs?service=git-receive-pack"]
    assert (refs(stage), objects(stage)) == before


def test_a_delete_is_refused(split: Box, stage: Gitmoat, ci_branch: str) -> None:
    commit(split, ci_branch)
    split.git("push", "origin", ci_branch).expect_success("push")
    ran = split.git("push", "origin", f":{ci_branch}")
    assert ran.code == 1
    assert f"! [remote rejected] {ci_branch} (deleting this ref is not allowed (G202))" in ran.err
    assert f"refs/heads/{ci_branch}" in refs(stage)


def test_an_unknown_revision_is_one_clear_error(split: Box, stage: Gitmoat) -> None:
    with reaching_upstream(stage) as requests:
        ran = split.git("push", "origin", "ci/nothing-of-this-name")
    assert ran.code == 4
    error, why, fix = ran.err.splitlines()
    assert error.startswith("error: the workspace has no revision 'ci/nothing-of-this-name' [")
    assert "sandbox" not in why + fix
    assert requests == []


@pytest.mark.parametrize(
    "words", [["push", "--force"], ["fetch", "origin", "main"], ["push", "origin", "a..b"], ["gc"]]
)
def test_what_the_gate_does_not_do_is_a_usage_error(split: Box, words: list[str]) -> None:
    ran = split.git(*words)
    assert ran.code == 2, ran.err
    assert ran.err.startswith("error: ") and "[C105]" in ran.err


def test_a_workspace_without_git_gets_everything_again(make_box: MakeBox, stage: Gitmoat) -> None:
    box = make_box("--push", "ci/**")
    box.sh("rm -rf /workspace/.git").expect_success("rm")
    box.git("fetch").expect_success("fetch")
    listed = workspace(box, "for-each-ref", "--format=%(refname) %(objectname)")
    found = dict(line.split(" ") for line in listed.splitlines())
    expected = {ref.replace("heads", "remotes/origin"): oid for ref, oid in refs(stage).items()}
    assert found == expected
    workspace(box, "checkout", "-q", "-f", "-B", "main", "origin/main")
    assert workspace(box, "fsck", "--strict", "--no-dangling") == ""


def test_a_workspace_that_lost_objects_gets_them_again(make_box: MakeBox) -> None:
    box = make_box()
    box.sh("rm -rf /workspace/.git/objects/pack/* /workspace/.git/objects/??")
    box.git("fetch").expect_success("fetch")
    assert workspace(box, "fsck", "--strict", "--no-dangling") == ""


def test_several_repositories_are_cloned_side_by_side(make_box: MakeBox, stage: Gitmoat) -> None:
    box = make_box("--repo", stage.url("play/one"), "--push", "ci/**")
    heads = {ALLOWED: "/workspace/app", "play/one": "/workspace/one"}
    for repository, directory in heads.items():
        head = workspace(box, "-C", directory, "rev-parse", "HEAD")
        assert head == refs(stage, repository)["refs/heads/main"]
    new = commit(box, "ci/several", "/workspace/one")
    ambiguous = box.git("push", "origin", "ci/several")
    assert ambiguous.code == 4
    assert "name one of: app, one" in ambiguous.err
    box.git("push", "one", "ci/several").expect_success("push")
    assert refs(stage, "play/one")["refs/heads/ci/several"] == new
    assert "refs/heads/ci/several" not in refs(stage)


def test_an_empty_repository_gives_an_empty_workspace_and_takes_the_first_commit(
    make_box: MakeBox, stage: Gitmoat
) -> None:
    path = make_empty(stage, "play/empty-split")
    git("--git-dir", str(path), "symbolic-ref", "HEAD", "refs/heads/trunk")
    box = make_box("--push", "trunk", repo="play/empty-split")
    assert workspace(box, "symbolic-ref", "HEAD") == "refs/heads/trunk"
    assert workspace(box, "config", "branch.trunk.merge") == "refs/heads/trunk"
    new = commit(box, "trunk")
    box.git("push").expect_success("push")
    assert refs(stage, "play/empty-split") == {"refs/heads/trunk": new}


def test_a_sha256_repository_goes_through_the_gate(make_box: MakeBox, stage: Gitmoat) -> None:
    make_empty(stage, "play/sha256-split", "--object-format=sha256")
    path = str(bare(stage, "play/sha256-split"))
    stream = (
        b"commit refs/heads/main\ncommitter T <t@x.invalid> 1700000000 +0000\ndata 1\nx\ndone\n"
    )
    git("--git-dir", path, "fast-import", "--quiet", stdin=stream)
    box = make_box("--push", "ci/**", repo="play/sha256-split")
    assert workspace(box, "rev-parse", "HEAD") == git("--git-dir", path, "rev-parse", "main")
    new = commit(box, "ci/x")
    box.git("push", "origin", "ci/x").expect_success("push")
    assert refs(stage, "play/sha256-split")["refs/heads/ci/x"] == new


def test_a_repository_that_is_not_there_leaves_no_sandbox(stage: Gitmoat) -> None:
    before = stage.hostctl("ls", "-q").out
    ran = stage.hostctl("run", "--repo", stage.url("acme/nothing"), "--", "true")
    assert ran.code == 125
    assert "could not be reached [R105]" in ran.err and "(G101)" in ran.err
    assert stage.hostctl("ls", "-q").out == before


EMPTY_REFS = """
refs=$(find /gate -path '*/refs/*' -type f) && test -n "$refs" &&
for ref in $refs; do : > "$ref"; done
"""


def test_refs_that_a_power_cut_left_empty_are_fetched_again(make_box: MakeBox) -> None:
    box = make_box()
    box.sh(EMPTY_REFS, as_helper=True).expect_success("emptying")
    box.git("fetch", "origin")
    box.git("fetch", "origin").expect_success("the second fetch")


def test_another_repository_cannot_be_named_to_the_gate(split: Box, stage: Gitmoat) -> None:
    with reaching_upstream(stage) as requests:
        ran = split.git("ls-remote", stage.url(FORBIDDEN))
    assert ran.code == 4
    assert "this sandbox has no repository" in ran.err
    assert requests == []

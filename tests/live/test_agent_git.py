"""Agent mode: the command's own git works within the scope, and nothing of it needs a secret."""

from __future__ import annotations

import uuid

import pytest

from tests.stage.boxes import Box, Clone, MakeBox
from tests.stage.gitmoat import Gitmoat
from tests.stage.repositories import ALLOWED, commit_upstream, reaching_upstream, refs, shapes

FETCH = ["GET refs?service=git-upload-pack", "POST git-upload-pack", "POST git-upload-pack"]
PUSH = ["GET refs?service=git-receive-pack", "POST git-receive-pack"]


def test_the_workspace_is_cloned_before_the_command_starts(agent: Box, stage: Gitmoat) -> None:
    head = agent.run("git", "-C", "/workspace", "rev-parse", "HEAD").expect_success("rev-parse")
    assert head == stage.head


def test_a_clone_has_what_upstream_has(agent: Box, stage: Gitmoat) -> None:
    with reaching_upstream(stage) as requests:
        clone = agent.clone(ALLOWED)
    assert clone.ask("rev-parse", "origin/main") == refs(stage)["refs/heads/main"]
    assert clone.ask("status", "--porcelain") == ""
    assert shapes(requests) == FETCH


def test_every_request_upstream_has_the_credential_and_the_sandbox_never_had_it(
    clone: Clone, stage: Gitmoat, branch: str
) -> None:
    clone.commit(branch)
    with reaching_upstream(stage) as requests:
        clone.ask("fetch", "-q", "origin", "main")
        clone.ask("push", "-q", "origin", branch)
    assert shapes(requests) == [*FETCH[:2], *PUSH]
    assert all(entry.authorization and entry.status == 200 for entry in requests)
    asked = ("config", "--show-origin", "--get-regexp", "credential|extraheader|proxy")
    assert clone.git(*asked).out.split() == ["file:/run/gitmoat/gitconfig", "credential.helper"]


@pytest.mark.parametrize(
    "drops", ["-u GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null"]
)
def test_a_client_that_reads_less_configuration_is_led_to_the_sidecar_too(
    agent: Box, stage: Gitmoat, drops: str
) -> None:
    """What drops GIT_*, and what reads a clone's own configuration alone."""
    script = f"cd /workspace && env {drops} git ls-remote origin main && git config user.name"
    ran = agent.sh(script)
    head = refs(stage)["refs/heads/main"]
    assert ran.expect_success("git ls-remote") == f"{head}\trefs/heads/main\nGitmoat sandbox"


def test_commits_are_by_the_author_that_run_was_given(make_box: MakeBox) -> None:
    box = make_box("--agent", "--author", 'Zoë "Z" O\'Neil <zoe@mail.example>')
    script = "cd /workspace && git commit -q --allow-empty -m x && git log -1 --format='%an <%ae>'"
    assert box.sh(script).out == 'Zoë "Z" O\'Neil <zoe@mail.example>\n'
    box.stage.hostctl("stop", box.name).expect_success("stop")
    box.stage.hostctl("start", box.name).expect_success("start")
    assert box.run("git", "config", "user.email").out == "zoe@mail.example\n"


def test_in_a_clone_of_the_gate_the_authors_own_configuration_counts(agent: Box) -> None:
    script = (
        "git config --global user.name Me && git -C /workspace config user.name;"
        " git config --global --unset user.name"
    )
    assert agent.sh(script).out == "Me\n"


def test_the_remote_keeps_the_url_that_was_typed(clone: Clone, stage: Gitmoat) -> None:
    assert clone.ask("config", "remote.origin.url") == stage.url(ALLOWED)


def test_a_fetch_brings_what_is_new_upstream(clone: Clone, stage: Gitmoat) -> None:
    ref = f"refs/heads/news-{uuid.uuid4().hex[:8]}"
    new = commit_upstream(stage, ref, "news")
    clone.ask("fetch", "-q", "origin")
    assert clone.ask("rev-parse", ref.replace("heads", "remotes/origin")) == new


def test_a_push_creates_a_branch_and_then_updates_it(
    clone: Clone, stage: Gitmoat, branch: str
) -> None:
    for _ in range(2):
        commit = clone.commit(branch)
        clone.ask("push", "-q", "origin", branch)
        assert refs(stage)[f"refs/heads/{branch}"] == commit


def test_a_forced_push_within_the_scope_is_an_update(
    clone: Clone, stage: Gitmoat, branch: str
) -> None:
    clone.commit(branch)
    clone.ask("push", "-q", "origin", branch)
    clone.ask("commit", "-q", "--amend", "-m", "Another history")
    assert clone.git("push", "origin", branch).code == 1
    clone.ask("push", "-q", "--force", "origin", branch)
    assert refs(stage)[f"refs/heads/{branch}"] == clone.ask("rev-parse", branch)


def test_several_refs_of_one_push_arrive_together(
    clone: Clone, stage: Gitmoat, branch: str
) -> None:
    commit = clone.commit(branch)
    names = [f"{branch}/{number}" for number in range(5)]
    with reaching_upstream(stage) as requests:
        clone.ask("push", "-q", "--atomic", "origin", *(f"{commit}:refs/heads/{n}" for n in names))
    assert shapes(requests) == PUSH
    assert [refs(stage)[f"refs/heads/{name}"] for name in names] == [commit] * 5


def test_a_push_of_what_is_there_already_sends_nothing(
    clone: Clone, stage: Gitmoat, branch: str
) -> None:
    clone.commit(branch)
    clone.ask("push", "-q", "origin", branch)
    with reaching_upstream(stage) as requests:
        ran = clone.git("push", "origin", branch)
    assert (ran.code, ran.err) == (0, "Everything up-to-date\n")
    assert shapes(requests) == PUSH[:1]


def test_a_large_push_is_probed_sent_in_chunks_and_arrives(
    clone: Clone, stage: Gitmoat, branch: str
) -> None:
    commit = clone.commit(branch, kib=3000)
    script = 'GIT_TRACE_CURL=1 GIT_TRACE_CURL_NO_DATA=1 git -C "$1" push origin "$2"'
    with reaching_upstream(stage) as requests:
        ran = clone.box.sh(script, clone.directory, branch)
    assert ran.code == 0, ran.err
    sent = [line for line in ran.err.splitlines() if "=> Send header: " in line]
    posts = [line for line in sent if "Send header: POST " in line]
    assert len(posts) == 2  # the probe, and the push
    assert sum("transfer-encoding: chunked" in line.lower() for line in sent) == 1
    assert shapes(requests) == PUSH  # the probe is answered by the broker
    assert refs(stage)[f"refs/heads/{branch}"] == commit


def test_tags_are_pushed_where_the_policy_lists_them(player: Box, stage: Gitmoat) -> None:
    clone = player.clone("play/one")
    clone.ask("tag", "v1")
    clone.ask("tag", "-a", "-m", "Second", "v2")
    clone.ask("push", "-q", "origin", "--tags")
    found = refs(stage, "play/one")
    assert found["refs/tags/v1"] == clone.ask("rev-parse", "v1")
    assert found["refs/tags/v2"] == clone.ask("rev-parse", "v2")


@pytest.mark.parametrize(
    "spelling", ["git@localhost:{}.git", "ssh://git@localhost/{}.git", "git://localhost/{}"]
)
def test_other_spellings_of_the_upstream_are_the_same_repository(
    agent: Box, stage: Gitmoat, spelling: str
) -> None:
    ran = agent.run("git", "ls-remote", spelling.format(ALLOWED), "refs/heads/main")
    assert ran.expect_success("ls-remote").split() == [
        refs(stage)["refs/heads/main"],
        "refs/heads/main",
    ]

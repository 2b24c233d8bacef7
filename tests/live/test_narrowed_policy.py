"""Options beside --policy narrow it, and `reload` takes a configuration whole or not at all."""

from __future__ import annotations

import uuid

import pytest

from tests.stage.boxes import MakeBox
from tests.stage.gitmoat import Gitmoat
from tests.stage.repositories import create_repository, refs


def test_repo_push_and_ttl_narrow_a_named_policy(make_box: MakeBox, stage: Gitmoat) -> None:
    other = f"play/{uuid.uuid4().hex[:8]}"
    create_repository(stage.upstream.repositories, other, {"a": b"a"})
    topic = f"agent/{uuid.uuid4().hex[:8]}"
    box = make_box("--policy", "play", "--push", topic, "--ttl", "10m", repo="play/one")
    about = box.inspect()
    assert about["policy"]["name"] == "play"
    assert 0 < about["session"]["expires"] - about["created"] <= 600
    box.sh(f"git checkout -q -b {topic} && git commit -q --allow-empty -m Topic").expect_success("")
    box.run("git", "push", "-q", "origin", topic).expect_success("push")
    assert f"refs/heads/{topic}" in refs(stage, "play/one")
    beside = box.run("git", "push", "origin", f"{topic}:refs/heads/agent/beside")
    assert beside.code == 1 and "G201" in beside.err
    unnamed = box.run("git", "ls-remote", stage.url(other))
    assert unnamed.code == 128 and "G101" in unnamed.err


@pytest.mark.parametrize(
    ("words", "exit_code", "text"),
    [
        (["--push", "topic"], 125, "topic is not within what the policy allows"),
        (["--ttl", "30d"], 125, "longer than the policy's"),
        (["--agent"], 2, "--agent cannot be combined with --policy"),
    ],
)
def test_what_would_widen_it_is_refused(
    stage: Gitmoat, words: list[str], exit_code: int, text: str
) -> None:
    ran = stage.hostctl("run", "--policy", "play", *words, "--", "true")
    assert ran.code == exit_code
    assert text in ran.err


def test_reload_takes_a_good_configuration_and_refuses_a_bad_one(stage: Gitmoat) -> None:
    assert stage.hostctl("reload").expect_success("reload")
    bad = stage.paths.broker_d / "zz-bad.toml"
    bad.write_text("[upstream.x]\nnonsense = 1\n")
    bad.chmod(0o640)
    try:
        ran = stage.hostctl("reload")
    finally:
        bad.unlink()
    assert ran.code == 8 and "[B104]" in ran.err
    assert stage.hostctl("status").code == 0

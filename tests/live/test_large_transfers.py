"""Hundreds of megabytes pass through sidecar and broker without staying in them."""

from __future__ import annotations

import json

import pytest

from tests.stage.boxes import HOME, Box, Clone, MakeBox
from tests.stage.gitmoat import Gitmoat
from tests.stage.kernel_view import peak_memory
from tests.stage.play import LARGE, PLAY
from tests.stage.repositories import make_empty, objects, refs
from tests.waiting import PATIENCE

MOST_KIB = 20 * 1024
QUICK = ("-c", "core.compression=0", "-c", "pack.window=0")


@pytest.fixture(scope="module")
def big_clone(player: Box, stage: Gitmoat, large: str) -> Clone:
    """The whole repository, cloned while nobody else is served."""
    before = peaks(player, stage)
    directory = f"{HOME}/large"
    words = ("git", *QUICK, "clone", "-q", "--no-checkout", stage.url(LARGE), directory)
    player.run(*words, timeout=5 * PATIENCE).expect_success("git clone")
    grown = {name: peak - before[name] for name, peak in peaks(player, stage).items()}
    assert max(grown.values()) < MOST_KIB, grown
    return Clone(player, directory)


def peaks(box: Box, stage: Gitmoat) -> dict[str, int]:
    """VmHWM in KiB of all that is ours on the way, and of hostd, which is not."""
    status = json.loads(stage.hostctl("--json", "status").expect_success("status"))
    pids = {
        "sidecar": box.sidecar,
        "broker": status["broker"]["pid"],
        "hostd": status["hostd"]["pid"],
    }
    return {name: peak_memory(pid) for name, pid in pids.items()}


def test_a_300_mb_clone_grows_sidecar_and_broker_by_less_than_20_mb(
    big_clone: Clone, large: str
) -> None:
    assert big_clone.ask("rev-parse", "HEAD") == large
    size = big_clone.ask("count-objects", "-v")
    assert int(size.partition("size-pack: ")[2].split()[0]) >= 300 * 1024


def test_a_150_mb_push_grows_sidecar_and_broker_by_less_than_20_mb(
    big_clone: Clone, stage: Gitmoat
) -> None:
    make_empty(stage, "play/pushed")
    half = 'cd "$1" && git read-tree --empty && git ls-tree HEAD | head -150 > "$1/half" &&'
    half += ' git update-index --index-info < "$1/half" &&'
    half += ' git commit-tree -m Half "$(git write-tree)"'
    commit = big_clone.box.sh(half, big_clone.directory).expect_success("git commit-tree")
    before = peaks(big_clone.box, stage)
    url = stage.url("play/pushed")
    ran = big_clone.git(
        *QUICK, "push", "-q", url, f"{commit}:refs/heads/main", timeout=5 * PATIENCE
    )
    ran.expect_success("git push")
    grown = {name: peak - before[name] for name, peak in peaks(big_clone.box, stage).items()}
    assert max(grown.values()) < MOST_KIB, grown
    assert refs(stage, "play/pushed") == {"refs/heads/main": commit}


def test_a_push_above_the_limit_is_refused_in_words_and_leaves_nothing(
    make_box: MakeBox, stage: Gitmoat
) -> None:
    """Sent in chunks, so that only counting tells how much it is."""
    (stage.paths.policies / "small.toml").write_text(f'{PLAY}push_max = "10MiB"\n')
    make_empty(stage, "play/limited")
    box = make_box("--policy", "small", repo=None)
    clone = box.clone("play/limited")
    clone.commit("main", kib=30 * 1024)
    ran = clone.git(*QUICK, "push", "origin", "main")
    assert ran.code == 1
    assert "! [remote rejected] main -> main" in ran.err and "(G301)" in ran.err, ran.err
    assert (refs(stage, "play/limited"), objects(stage, "play/limited")) == ({}, set())
    clone.ask("checkout", "-q", "--orphan", "less")
    clone.ask("rm", "-q", "-r", "--cached", ".")
    commit = clone.commit("agent/less", kib=5 * 1024)
    clone.ask(*QUICK, "push", "-q", "origin", "agent/less")
    assert refs(stage, "play/limited") == {"refs/heads/agent/less": commit}

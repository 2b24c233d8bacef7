"""Work that was pushed nowhere is named, saved, and not removed by the way."""

from __future__ import annotations

import json
from pathlib import Path

from tests.stage.boxes import Box, MakeBox
from tests.stage.gitmoat import Gitmoat
from tests.stage.repositories import ALLOWED, bare, git


def has_work(box: Box) -> None:
    script = (
        "git checkout -qb agent/work && echo one > one && git add one && git commit -qm 'The one'"
        " && echo more >> one && printf 'b\\0in' > 'new file'"
    )
    box.run("sh", "-c", script).expect_success("work")


def test_what_was_pushed_nowhere_is_saved_and_can_be_had_again(
    make_box: MakeBox, stage: Gitmoat, tmp_path: Path
) -> None:
    box = make_box("--agent", "--push", "agent/**")
    nothing = stage.hostctl("rescue", box.name, str(tmp_path))
    assert (nothing.code, nothing.out) == (0, f"nothing in {box.name} was pushed nowhere\n")
    has_work(box)
    saved = stage.hostctl("rescue", box.name, str(tmp_path))
    bundle, patch = map(Path, saved.expect_success("rescue").split())
    assert "1 commit and 2 changes" in saved.err and "The one" in saved.err
    assert {oct(file.stat().st_mode & 0o777) for file in (bundle, patch)} == {"0o600"}
    again = tmp_path / "again"
    git("clone", "-q", str(bare(stage, ALLOWED)), str(again))
    git("-C", str(again), "fetch", "-q", str(bundle), "refs/heads/agent/work:refs/heads/rescued")
    git("-C", str(again), "checkout", "-q", "rescued")
    git("-C", str(again), "apply", str(patch))
    assert (again / "one").read_text() == "one\nmore\n"
    assert (again / "new file").read_bytes() == b"b\0in"
    index = box.run("git", "status", "--porcelain").out
    assert index == ' M one\n?? "new file"\n'  # as it was
    twice = stage.hostctl("rescue", box.name, str(tmp_path))
    assert twice.code != 0 and "R112" in twice.err and bundle.read_bytes()


def test_a_sandbox_with_such_work_is_removed_by_force_alone(
    make_box: MakeBox, stage: Gitmoat
) -> None:
    box = make_box("--agent", "--push", "agent/**")
    stage.hostctl("stop", box.name).expect_success("stop")
    stopped = stage.hostctl("rm", box.name)
    assert stopped.code != 0 and "R118" in stopped.err and "cannot be asked" in stopped.err
    stage.hostctl("start", box.name).expect_success("start")
    has_work(box)
    kept = stage.hostctl("rm", box.name)
    assert kept.code != 0 and "1 commit and 2 changes" in kept.err, kept
    assert f"hostctl rescue {box.name}" in kept.err
    box.run("sh", "-c", "git stash -qu && git stash drop -q").expect_success("clean")
    box.run("git", "push", "-q", "origin", "agent/work").expect_success("push")
    stage.hostctl("rm", box.name).expect_success("rm")
    left = json.loads(stage.hostctl("--json", "ls").expect_success("ls"))["items"]
    assert box.name not in {each["name"] for each in left}


def test_what_a_hostile_repository_says_is_bounded_and_shown_plainly(
    make_box: MakeBox, stage: Gitmoat, tmp_path: Path
) -> None:
    box = make_box("--agent", "--push", "agent/**")
    has_work(box)
    box.run("git", "commit", "-q", "--amend", "-m", "\x1b]0;owned\x07").expect_success("amend")
    said = stage.hostctl("rescue", box.name, str(tmp_path), "--max-size", "10")
    assert said.code != 0 and "--max-size" in said.err and list(tmp_path.iterdir()) == []
    assert "\x1b" not in said.err and "]0;owned" in said.err


def test_a_stash_and_repositories_of_one_name_are_saved_and_a_damaged_one_is_named(
    make_box: MakeBox, stage: Gitmoat, tmp_path: Path
) -> None:
    box = make_box("--agent", "--push", "agent/**")
    box.run("sh", "-c", "echo kept > one && git add one && git stash -q").expect_success("stash")
    stashed = stage.hostctl("rm", box.name)
    assert stashed.code != 0 and "/workspace: 2 commits" in stashed.err, stashed
    script = (
        "for d in /workspace/app ~/app; do git init -q $d && git -C $d commit -q --allow-empty -m a"
        " || exit; done; git init -q ~/torn && : > ~/torn/.git/HEAD"
    )
    box.run("sh", "-c", script).expect_success("repositories")
    kept = stage.hostctl("rm", box.name)
    assert kept.code != 0 and "/torn: its git cannot read it" in kept.err, kept
    saved = stage.hostctl("rescue", box.name, str(tmp_path))
    assert "/torn: its git cannot read it" in saved.err, saved
    names = {Path(file).name for file in saved.expect_success("rescue").split()}
    bundles = {name for name in names if name.endswith(".bundle")}
    assert bundles == {f"{box.name}-{name}.bundle" for name in ("workspace", "app", "app-2")}
    again = tmp_path / "again"
    git("clone", "-q", str(bare(stage, ALLOWED)), str(again))
    git(
        "-C",
        str(again),
        "fetch",
        "-q",
        str(tmp_path / f"{box.name}-workspace.bundle"),
        "refs/stash",
    )
    git("-C", str(again), "stash", "apply", "-q", "FETCH_HEAD")
    assert (again / "one").read_text() == "kept\n"


def test_a_sandbox_that_says_too_much_of_itself_can_be_removed_all_the_same(
    make_box: MakeBox, stage: Gitmoat
) -> None:
    box = make_box("--agent", "--push", "agent/**")
    box.run("sh", "-c", "for n in $(seq 65); do mkdir -p ~/$n/.git; done").expect_success("many")
    kept = stage.hostctl("rm", box.name)
    assert kept.code != 0 and "R112" in kept.err and "not understood" in kept.err, kept
    assert f"fix: hostctl rm --force {box.name}" in kept.err
    stage.hostctl("rm", "--force", box.name).expect_success("rm")

"""What a sandbox changed, compared by the gate: nothing of the workspace has a part in it."""

from __future__ import annotations

from tests.stage.boxes import MakeBox
from tests.stage.gitmoat import Gitmoat


def test_all_that_was_changed_is_shown(make_box: MakeBox, stage: Gitmoat) -> None:
    box = make_box("--push", "ci/**")
    assert stage.hostctl("diff", box.name).expect_success("diff") == ""
    script = (
        "git checkout -qb ci/x && echo one > one && git add one && git commit -qm one"
        " && echo two > 'new file' && echo staged > staged && git add staged"
    )
    box.run("sh", "-c", script).expect_success("work")
    before = box.run("git", "status", "--porcelain").out
    shown = stage.hostctl("diff", box.name).expect_success("diff")
    for name in ("one", "new file", "staged"):
        assert f"b/{name}" in shown, shown
    assert "3 files changed, 3 insertions(+)" in shown
    assert box.run("git", "status", "--porcelain").out == before
    committed = stage.hostctl("diff", box.name, "ci/x").expect_success("diff")
    assert "+one" in committed and "staged" not in committed
    assert stage.hostctl("diff", box.name, "none").code == 4
    assert stage.hostctl("diff", box.name, "--", "--output=/tmp/x").code == 2
    # what was pushed has been changed all the same, and the end of the session ends nothing here
    box.git("push", "origin", "ci/x").expect_success("push")
    stage.hostctl("session", "revoke", box.name).expect_success("revoke")
    assert stage.hostctl("diff", box.name).expect_success("diff") == shown


def test_a_hostile_workspace_hides_nothing_and_runs_nothing(
    make_box: MakeBox, stage: Gitmoat
) -> None:
    box = make_box("--push", "ci/**")
    script = (
        "git config diff.external 'touch /tmp/ran-external #'"
        " && git config core.attributesFile /tmp/attributes && echo '* -diff' > /tmp/attributes"
        " && echo '* -diff diff=x' > .gitattributes && cp .gitattributes .git/info/attributes"
        " && git config diff.x.textconv 'true' && printf 'evil\\033[2J\\n' > evil"
        " && git add -A && git commit -qm hostile && git update-index --assume-unchanged evil"
        " && echo more >> evil"
    )
    box.run("sh", "-c", script).expect_success("work")
    shown = stage.hostctl("diff", box.name).expect_success("diff")
    assert "+evil\033[2J" in shown and "+more" in shown
    assert box.run("ls", "/tmp").out.split() == ["attributes", "gitmoat-index"]

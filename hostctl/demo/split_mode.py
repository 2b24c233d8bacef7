"""Checks of split mode: the gate has git, the command has none."""

from __future__ import annotations

from hostctl.demo.stage import ALLOWED, SPLIT, CheckFailed, Stage

_FIRST = """
git -C /workspace rev-parse HEAD > "$HOME/seen-at-start"
test -f /workspace/README.md
exec sleep infinity
"""
_WAIT = """
for n in 1 2 3 4 5 6 7 8 9 10; do test -s "$HOME/seen-at-start" && break; sleep 0.3; done
cat "$HOME/seen-at-start"
"""
_COMMIT = """
cd /workspace
git checkout -q -b ci/demo
echo result >> results.txt
git add results.txt
git commit -q -m "Result of a build"
git rev-parse HEAD
"""


def workspace_is_there(stage: Stage) -> str:
    words = ("--repo", stage.url(ALLOWED), "--push", "ci/**")
    stage.start(SPLIT, *words, "--", "/bin/sh", "-ec", _FIRST)
    seen = stage.shell(SPLIT, _WAIT).expect_success("the command's first look")
    if seen != stage.head:
        raise CheckFailed(f"the command saw {seen or 'nothing'}, upstream has {stage.head}")
    return f"its first look at /workspace saw {seen[:9]}"


def command_has_no_network(stage: Stage) -> str:
    before = len(stage.requests())
    for script in ("cd /workspace && git fetch origin", 'git ls-remote "$1"'):
        ran = stage.shell(SPLIT, script, stage.url(ALLOWED))
        ran.expect_failure(script)
    if len(stage.requests()) != before:
        raise CheckFailed("the git server was asked")
    return "fetch and ls-remote fail, and nothing reached the git server"


def gate_pushes(stage: Stage) -> str:
    commit = stage.shell(SPLIT, _COMMIT).expect_success("git commit")
    ran = stage.hostctl("git", SPLIT, "--", "push", "origin", "ci/demo")
    ran.expect_success("the gate's push")
    arrived = stage.upstream_ref("refs/heads/ci/demo")
    if commit != arrived:
        raise CheckFailed(f"committed {commit}, upstream has {arrived}")
    return f"{commit[:9]} is upstream"

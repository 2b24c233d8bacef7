"""Checks of split mode: the gate has git, the command has none."""

from __future__ import annotations

from hostctl.demo_probes import CONNECT, CREDENTIAL
from hostctl.demo_stage import ALLOWED, SPLIT, CheckFailed, Stage

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


def command_has_no_git_network(stage: Stage) -> str:
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


def credential_socket_refuses(stage: Stage) -> str:
    question = {"credential": _path(stage)}
    answer = stage.probe(SPLIT, CREDENTIAL, question)["credential"]
    if "password" in answer or "username" in answer:
        raise CheckFailed("it handed out a token")
    if answer not in ({}, {"quit": "1"}):
        raise CheckFailed(f"it answered {sorted(answer)}")
    return "connection closed without an answer" if not answer else "answered quit=1"


def helper_port_refuses(stage: Stage) -> str:
    question = {"targets": [["4", "127.0.0.1", 418]]}
    (helper,) = stage.probe(SPLIT, CONNECT, question, "helper")["results"]
    if helper["error"] is not None:
        raise CheckFailed(f"the helper itself cannot connect: {helper['error']}")
    (untrusted,) = stage.probe(SPLIT, CONNECT, question)["results"]
    if untrusted["error"] is None:
        raise CheckFailed("the untrusted uid can connect to port 418")
    if untrusted["seconds"] > 1:
        raise CheckFailed(f"refused only after {untrusted['seconds']} s")
    return f"{untrusted['error']}; the helper connects"


def _path(stage: Stage) -> str:
    return f"localhost:{stage.upstream.port}/{ALLOWED}.git"

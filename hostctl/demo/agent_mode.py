"""Checks of agent mode: the command uses git by itself, within its scope."""

from __future__ import annotations

import json
import os
import re
import signal
import time

from hostctl.demo.stage import AGENT, ALLOWED, FORBIDDEN, SPLIT, CheckFailed, Ran, Stage

_COMMIT = """
cd "$HOME/clone"
git checkout -q -B "$1"
echo "$1" >> notes.txt
git add notes.txt
git commit -q -m "Work of an agent"
git push -q origin "$1"
git rev-parse HEAD
"""
_FETCH = 'cd "$HOME/clone" && git fetch origin main'
_RECOVERY_SECONDS = 10.0


def clone_works(stage: Stage) -> str:
    words = ("--agent", "--repo", stage.url(ALLOWED), "--push", "agent/**")
    stage.start(AGENT, *words, "--", "sleep", "infinity")
    script = 'git clone -q "$1" "$HOME/clone" && git -C "$HOME/clone" rev-parse HEAD'
    head = stage.shell(AGENT, script, stage.url(ALLOWED)).expect_success("git clone")
    if head != stage.head:
        raise CheckFailed(f"the clone has {head}, upstream has {stage.head}")
    return f"{ALLOWED} at {head[:9]}, and no credential in the sandbox"


def push_works(stage: Stage) -> str:
    commit = stage.shell(AGENT, _COMMIT, "agent/demo").expect_success("git push")
    arrived = stage.upstream_ref("refs/heads/agent/demo")
    if commit != arrived:
        raise CheckFailed(f"pushed {commit}, upstream has {arrived}")
    return f"{commit[:9]} is upstream"


def push_to_main_is_refused(stage: Stage) -> str:
    before = len(stage.requests())
    ran = stage.shell(AGENT, 'cd "$HOME/clone" && git push origin HEAD:main')
    said = ran.expect_failure("a push to main")
    if "! [remote rejected]" not in said or "G201" not in said:
        raise CheckFailed(f"git did not show the reason: {ran.err.strip()[-300:]}")
    if stage.upstream_ref("refs/heads/main") != stage.head:
        raise CheckFailed("main has moved upstream")
    sent = [line for line in stage.requests()[before:] if line.startswith("POST")]
    if sent:
        raise CheckFailed(f"the git server was asked: {sent[0]}")
    return _line_with("! [remote rejected]", said)


def foreign_is_unknown(stage: Stage) -> str:
    before = len(stage.requests())
    forbidden, unknown = (_ls_remote(stage, name) for name in (FORBIDDEN, "acme/nothing"))
    said = [_without_names(ran.expect_failure("ls-remote")) for ran in (forbidden, unknown)]
    if "not found" not in said[0] or "G101" not in said[0]:
        raise CheckFailed(f"not a 404 with its code: {said[0].strip()[-300:]}")
    if said[0] != said[1]:
        raise CheckFailed(f"forbidden and unknown differ: {said[0]!r}, {said[1]!r}")
    if len(stage.requests()) != before:
        raise CheckFailed("the git server was asked")
    return "404, word for word like a repository that does not exist"


def killed_sidecar(stage: Stage) -> str:
    before = _sidecar(stage)
    os.kill(before, signal.SIGKILL)
    begun = time.monotonic()
    while stage.shell(AGENT, _FETCH).code != 0:
        if time.monotonic() - begun > _RECOVERY_SECONDS:
            raise CheckFailed(f"no fetch in {_RECOVERY_SECONDS:.0f} s after the kill")
        time.sleep(0.2)
    took = time.monotonic() - begun
    after = _sidecar(stage)
    if after == before:
        raise CheckFailed(f"the sidecar is still pid {before}")
    commit = stage.shell(AGENT, _COMMIT, "agent/after-kill").expect_success("git push")
    if commit != stage.upstream_ref("refs/heads/agent/after-kill"):
        raise CheckFailed("the push did not arrive upstream")
    return f"fetched {took:.1f} s after kill -9 of pid {before}; now pid {after}"


def revoked_session_is_refused(stage: Stage) -> str:
    stage.shell(AGENT, _FETCH).expect_success("git fetch before the revocation")
    words = ("session", "revoke", AGENT, "--reason", "demo")
    stage.hostctl(*words).expect_success("session revoke")
    before = len(stage.requests())
    said = stage.shell(AGENT, _FETCH).expect_failure("git fetch after the revocation")
    if len(stage.requests()) != before:
        raise CheckFailed("the git server was asked")
    if "S101" not in said:
        raise CheckFailed(f"git did not show the reason: {said.strip()[-300:]}")
    stage.hostctl("git", SPLIT, "--", "ls-remote").expect_success("the other sandbox")
    return _line_with("S101", said).removeprefix("remote: ")


def _ls_remote(stage: Stage, repository: str) -> Ran:
    return stage.shell(AGENT, 'git ls-remote "$1"', stage.url(repository))


def _without_names(text: str) -> str:
    text = text.replace(FORBIDDEN, "REPOSITORY").replace("acme/nothing", "REPOSITORY")
    return re.sub(r"[0-9a-f]{16}", "REQUEST-ID", text)


def _sidecar(stage: Stage) -> int:
    ran = stage.hostctl("inspect", AGENT, "--json")
    pid = json.loads(ran.expect_success("inspect"))["sidecar"]["pid"]
    if not isinstance(pid, int):
        raise CheckFailed("inspect names no sidecar")
    return pid


def _line_with(part: str, text: str) -> str:
    return next((" ".join(line.split()) for line in text.splitlines() if part in line), part)

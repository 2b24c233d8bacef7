"""Rows 56 and 57: programs that a repository names are never run by the git gate.

Each exploit is first shown to work on git as anybody would use it in that workspace; only then
does it count that the gate's fetch, push and ls-remote do not run it.
"""

from __future__ import annotations

import pytest
from attrs import frozen

from tests.adversary.hostile import INLINE, Hostile
from tests.fakes.long_cases import one_in

FETCH = 'git fetch "$URL" "+refs/heads/*:refs/remotes/tried/*" || true\n'
PUSH = 'git push "$URL" "HEAD:refs/heads/ci/tried-$$" || true\n'
LS = 'git ls-remote "$URL" || true\n'
HOOKS = """
mkdir -p "$1" && for name in reference-transaction pre-push post-update post-merge pre-auto-gc \\
    post-rewrite update pre-receive post-receive push-to-checkout fsmonitor-watchman \\
    post-index-change post-checkout proc-receive pre-commit post-commit; do
    cp "$CANARY_FILE" "$1/$name"
done
"""
EVIL_HOOKS = HOOKS.replace("$1", "/workspace/evil/hooks")


@frozen
class Exploit:
    name: str
    plant: str
    control: str


EXPLOITS = [
    Exploit("hooks, on fetch", HOOKS.replace("$1", ".git/hooks"), FETCH),
    Exploit("hooks, on push", HOOKS.replace("$1", ".git/hooks"), PUSH),
    Exploit("hooksPath", f"{EVIL_HOOKS} git config core.hooksPath /workspace/evil/hooks", FETCH),
    Exploit(
        "include",
        f"{EVIL_HOOKS} git config -f /workspace/evil/inc core.hooksPath /workspace/evil/hooks\n"
        "git config include.path /workspace/evil/inc",
        FETCH,
    ),
    Exploit(
        "includeIf",
        f"{EVIL_HOOKS} git config -f /workspace/evil/inc core.hooksPath /workspace/evil/hooks\n"
        "git config includeIf.gitdir:/.path /workspace/evil/inc",
        FETCH,
    ),
    Exploit(
        "config.worktree",
        f"{EVIL_HOOKS} git config extensions.worktreeConfig true\n"
        "git config -f .git/config.worktree core.hooksPath /workspace/evil/hooks",
        FETCH,
    ),
    Exploit(
        "commondir",
        "cp -a .git /workspace/evil/common && echo /workspace/evil/common > .git/commondir\n"
        'git config -f /workspace/evil/common/config core.fsmonitor "$CANARY"',
        "git status",
    ),
    Exploit(
        "git file",
        "mv .git /workspace/evil/elsewhere && echo gitdir: /workspace/evil/elsewhere > .git\n"
        'git config core.fsmonitor "$CANARY"',
        "git status",
    ),
    Exploit("fsmonitor", 'git config core.fsmonitor "$CANARY"', "git status"),
    Exploit(
        "alternateRefsCommand",
        "git clone -q --bare . /workspace/evil/alt && cd /workspace/evil/alt\n"
        'git commit-tree -m x "HEAD^{tree}" > new && git update-ref refs/heads/n "$(cat new)"\n'
        "cd /workspace/app && echo /workspace/evil/alt/objects > .git/objects/info/alternates\n"
        'git config core.alternateRefsCommand "$CANARY; true"',
        FETCH,
    ),
    Exploit(
        "sshCommand",
        'git config core.sshCommand "$CANARY;"\n'
        'for url in "$URL" "$GATE_URL"; do git config --add url.ssh://h/x.insteadOf "$url"; done',
        FETCH,
    ),
    Exploit(
        "gitProxy",
        'git config core.gitProxy "$CANARY_FILE"\n'
        'for url in "$URL" "$GATE_URL"; do git config --add url.git://h/x.insteadOf "$url"; done',
        LS,
    ),
    Exploit(
        "askPass",
        'git config core.askPass "$CANARY_FILE"',
        "printf 'protocol=https\\nhost=h\\n\\n' | git credential fill || true",
    ),
    Exploit("editor", 'git config core.editor "$CANARY;:"', "git commit --allow-empty || true"),
    Exploit(
        "gpg",
        'git config gpg.program "$CANARY_FILE" && git config user.signingKey x\n'
        "git config push.gpgSign true && git config commit.gpgSign true",
        "git commit --allow-empty -m x || true",
    ),
    Exploit(
        "pager",
        'git config core.pager "$CANARY;cat" && git config pager.ls-remote true',
        "script -qc 'git log' /dev/null || true",
    ),
    Exploit(
        "aliases of what the gate runs",
        "for verb in fetch push ls-remote index-pack pack-objects rev-parse cat-file hostile; do\n"
        '    git config "alias.$verb" "!$CANARY"\n'
        "done",
        "git hostile",
    ),
    Exploit(
        "credential helpers",
        'git config credential.helper "!$CANARY;:"\n'
        'git config "credential.http://127.0.0.1:418.helper" "!$CANARY;:"\n'
        'git config "credential.$GATE_URL.helper" "!$CANARY;:"',
        "printf 'protocol=http\\nhost=127.0.0.1:418\\n\\n' | git credential fill || true",
    ),
]


@pytest.mark.parametrize("exploit", one_in(2, EXPLOITS), ids=lambda exploit: exploit.name)
def test_a_program_that_the_repository_names_never_runs_as_the_helper(
    hostile: Hostile, exploit: Exploit
) -> None:
    hostile.plant(exploit.plant)
    hostile.control(exploit.control)
    assert hostile.executions() == {hostile.untrusted}, "the exploit does not work at all"
    hostile.forget()
    hostile.attack()


def test_a_program_that_runs_as_the_helper_would_be_seen(hostile: Hostile) -> None:
    """The canary's own control: the rooms are apart, and it is recorded all the same."""
    hostile.plant("")
    hostile.box.sh(INLINE, as_helper=True).expect_success("the canary")
    assert hostile.executions() == {hostile.helper}
    with pytest.raises(AssertionError):
        hostile.check()


def test_hooks_still_run_for_the_workspaces_own_uid(hostile: Hostile) -> None:
    """A fetch updates the workspace's refs by the workspace's own git, and that one has hooks."""
    hostile.plant(HOOKS.replace("$1", ".git/hooks"))
    fetched = hostile.fetch()
    assert fetched.ran.code == 0
    hostile.check(fetched)
    assert hostile.executions() == {hostile.untrusted}

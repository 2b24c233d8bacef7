"""Rows 42, 70 and 107: files, directories and variables that are not what they seem.

Symlinks that point at the gate's own files, layouts that git would discover, directories swapped
while objects arrive, programs and libraries for whoever trusts a PATH. The gate has no path in
the workspace, so the worst that happens is an error of the workspace's own git.
"""

from __future__ import annotations

import hashlib
import subprocess
import uuid
from pathlib import Path

import pytest

from hostctl.setup.daemons import clean_environment
from tests.adversary.hostile import APP, INLINE, Hostile, MakeHostile
from tests.fakes.long_cases import one_in
from tests.stage.boxes import Box
from tests.stage.command import command
from tests.stage.gitmoat import Gitmoat
from tests.stage.repositories import ALLOWED, commit_upstream
from tests.waiting import PATIENCE

BARE = hashlib.sha256(f"demo:{ALLOWED}".encode()).hexdigest()[:16] + ".git"
# Every file that git appends to, truncates or renames over during a fetch; together where they
# do not keep each other from being used.
WRITTEN = (
    ("FETCH_HEAD", "ORIG_HEAD", "COMMIT_EDITMSG", "description", "index", "logs"),
    ("logs/HEAD", "logs/refs"),
    ("config",),
    ("HEAD",),
    ("packed-refs",),
    ("shallow",),
    ("refs",),
    ("refs/remotes/origin",),
    ("objects/pack",),
    ("objects/info", "info"),
)


@pytest.mark.parametrize("inside", [True, False], ids=["the gate's path", "the host's path"])
@pytest.mark.parametrize("names", one_in(3, WRITTEN), ids=lambda names: names[0])
def test_a_symlink_in_git_never_leads_to_a_file_of_the_gate(
    hostile: Hostile, names: tuple[str, ...], inside: bool
) -> None:
    """The target exists where the helper, or hostd, would look if it followed the link."""
    target = (Path("/gate") if inside else hostile.gate_directory) / BARE / "config"
    links = [
        f"rm -rf .git/{name} && mkdir -p .git/{name}.x && rmdir .git/{name}.x" for name in names
    ]
    links += [f"ln -s {target} .git/{name}" for name in names]
    hostile.plant("\n".join(links))
    assert (hostile.gate_directory / BARE / "config").is_file()
    hostile.check(hostile.fetch())


LAYOUTS = [
    pytest.param("mv .git ../evil/g && ln -s /workspace/evil/g .git", id="git is a symlink"),
    pytest.param("rm -rf .git && ln -s / .git", id="git is the root"),
    pytest.param("cd .. && rm -rf app && ln -s / app", id="the directory is the root"),
    pytest.param("cd .. && rm -rf app && ln -s app app", id="the directory is a loop"),
    pytest.param("cd .. && rm -rf app && touch app", id="the directory is a file"),
    pytest.param("cd .. && rm -rf app && ln -s /run/gitmoat app", id="a read-only place"),
    pytest.param("cd .. && rm -rf app", id="the directory is gone"),
    pytest.param("chmod 0 .git", id="git is closed"),
    pytest.param("chmod 0 ../app", id="the directory is closed"),
    pytest.param("rm -rf .git && echo gitdir: /gate/x > .git", id="git file to the gate"),
    pytest.param("git config core.worktree /", id="core.worktree"),
    pytest.param("git config core.bare true", id="core.bare"),
    pytest.param("git config core.repositoryFormatVersion 99", id="a format of the future"),
    pytest.param("git config extensions.objectFormat sha256", id="another hash"),
    pytest.param("echo '[' >> .git/config", id="broken config"),
    pytest.param("head -c 100000000 /dev/zero > .git/config", id="endless config"),
    pytest.param("echo ref: refs/heads/../../../x > .git/HEAD", id="HEAD leaves refs"),
    pytest.param(
        "mkdir -p objects refs && echo ref: refs/heads/main > HEAD && cp .git/config config\n"
        'git config -f config core.fsmonitor "$CANARY" && rm -rf .git',
        id="a bare layout in the directory",
    ),
    pytest.param(
        "for place in .. ../evil $HOME /tmp; do mkdir -p $place/objects $place/refs\n"
        "echo ref: refs/heads/main > $place/HEAD\n"
        "git config -f $place/config core.bare true\n"
        'git config -f $place/config core.fsmonitor "$CANARY"; done',
        id="bare layouts around",
    ),
]


@pytest.mark.parametrize("plant", one_in(3, LAYOUTS))
def test_a_strange_layout_is_the_workspaces_own_problem(hostile: Hostile, plant: str) -> None:
    hostile.plant(plant)
    hostile.check(hostile.fetch(), hostile.push())


def test_directories_swapped_while_objects_arrive_change_nothing_outside(
    hostile: Hostile, stage: Gitmoat
) -> None:
    """Row 107: `.git` and directories in it turn into symlinks and back, all the time."""
    hostile.plant(
        f"mkdir ../evil/link && cat > ../evil/swap.py <<'E'\n{SWAP}E\n"
        f"python3 ../evil/swap.py /gate/{BARE} {hostile.gate_directory}/{BARE} </dev/null "
        ">/dev/null 2>&1 &"
    )
    try:
        for number in range(3):
            commit_upstream(stage, f"refs/heads/swap-{number}", uuid.uuid4().hex)
            hostile.check(hostile.fetch(), hostile.push())
    finally:
        hostile.sh("pkill -f swap.py")


SWAP = """
import os, sys, time
targets = sys.argv[1:]
end = time.monotonic() + 600
names = [".git", ".git/objects", ".git/objects/pack", ".git/refs", ".git/refs/remotes", ".git/logs"]
while time.monotonic() < end:
    for name in names:
        for target in targets:
            path = "/workspace/app/" + name
            try:
                os.rename(path, "/workspace/evil/aside")
                os.symlink(target, path)
                time.sleep(0.002)
                os.unlink(path)
            except OSError:
                pass
            try:
                os.rename("/workspace/evil/aside", path)
            except OSError:
                pass
        time.sleep(0.002)
"""


HOME_FILES = """
mkdir -p "$HOME/bin" "$HOME/.config/git" "$HOME/.config/git/hooks"
for name in git sh python3 find mv mkdir git-remote-http git-credential-cache; do
    cp "$CANARY_FILE" "$HOME/bin/$name"
done
for name in .profile .bashrc .bash_profile .zshenv .env; do
    printf 'PATH=$HOME/bin:$PATH\\n%s\\n' "$CANARY" > "$HOME/$name"
done
git config -f "$HOME/.config/git/config" core.fsmonitor "$CANARY"
git config -f "$HOME/.config/git/config" credential.helper "!$CANARY"
echo '* filter=evil' > "$HOME/.config/git/attributes"
printf 'machine 127.0.0.1 login x password y\\n' > "$HOME/.netrc"
printf 'proxy = http://127.0.0.1:9999\\n' > "$HOME/.curlrc"
mkdir -p "$HOME/lib/python3" && echo 'raise SystemExit' > "$HOME/lib/python3/socket.py"
"""


def test_programs_and_settings_in_the_home_are_nobodys_but_the_commands(hostile: Hostile) -> None:
    hostile.plant(HOME_FILES)
    try:
        hostile.control("git status")
        assert hostile.executions() == {hostile.untrusted}, "the exploit does not work at all"
        hostile.forget()
        done = hostile.attack()
        assert [each.ran.code for each in done] == [0, 0, 0]
    finally:
        hostile.sh(
            'cd "$HOME" && rm -rf bin lib .config .profile .bash* .zshenv .env .netrc .curlrc'
        )


VARIABLES = {
    "PATH": "/workspace/evil/bin:/usr/bin:/bin",
    "LD_PRELOAD": "/workspace/evil/preload.so",
    "LD_LIBRARY_PATH": "/workspace/evil",
    "GIT_DIR": "/workspace/evil/git",
    "GIT_WORK_TREE": "/",
    "GIT_EXEC_PATH": "/workspace/evil/bin",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "core.fsmonitor",
    "GIT_CONFIG_VALUE_0": INLINE,
    "GIT_CONFIG_SYSTEM": "/workspace/evil/config",
    "GIT_TRACE": "1",
    "GIT_SSH_COMMAND": INLINE,
    "GIT_TEMPLATE_DIR": "/workspace/evil",
    "GIT_OBJECT_DIRECTORY": "/workspace/evil/objects",
    "PYTHONPATH": "/workspace/evil",
    "PYTHONSTARTUP": "/workspace/evil/start.py",
    "http_proxy": "http://127.0.0.1:9999",
    "BASH_ENV": "/workspace/evil/env",
}


def test_variables_of_the_sandbox_reach_its_command_and_no_git_of_the_gate(
    make_hostile: MakeHostile,
) -> None:
    """`run -e` sets them for the command; the gate's processes begin with an empty environment."""
    words = [word for name, value in VARIABLES.items() for word in ("-e", f"{name}={value}")]
    hostile = make_hostile(*words, "--policy", "hostile")
    told = hostile.box.stage.hostctl(
        *("exec", hostile.box.name, "--", "env", "LD_PRELOAD=/workspace/evil/preload.so"),
        *("GIT_TRACE=1", "git", "version"),
    )
    assert "cannot be preloaded" in told.err and "trace:" in told.err
    hostile.plant("")
    for each in hostile.attack():
        assert each.ran.code == 0
        assert "preloaded" not in each.ran.err and "trace:" not in each.ran.err


def test_variables_and_directory_of_the_admin_reach_no_git_of_the_gate(
    hostile: Hostile, tmp_path: Path
) -> None:
    """Row 70: hostctl is started in a hostile repository, with hostile variables."""
    hostile.plant("")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True, cwd="/")
    (tmp_path / "json.py").write_text("raise SystemExit('imported from the directory')\n")
    variables = {name: value for name, value in VARIABLES.items() if name not in ("PATH",)}
    for name in ("LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONSTARTUP", "BASH_ENV"):
        del variables[name]  # what changes hostctl itself is the admin's own affair
    hostctl = command(hostile.box.stage.root)
    done = subprocess.run(
        [*hostctl, "git", hostile.box.name, "--", "push", "app", f"HEAD:ci/{uuid.uuid4().hex[:8]}"],
        env=clean_environment() | variables,
        cwd=tmp_path,
        capture_output=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert b"trace:" not in done.stderr
    hostile.check()


def test_the_gates_room_shows_nothing_that_the_command_can_write(hostile: Hostile) -> None:
    """Why all this holds: the two rooms have no writable directory in common."""
    hostile.plant("")
    mark = uuid.uuid4().hex
    hostile.sh(f"for d in /workspace /tmp /dev/shm $HOME /var/tmp /run; do echo > $d/{mark}; done")
    box: Box = hostile.box
    assert box.sh(f"ls {APP}", as_helper=True).code != 0
    found = box.sh(f"find / -name {mark} -not -path '/proc/*' 2>/dev/null", as_helper=True)
    assert found.out == ""
    assert box.sh(f"ls /workspace/{mark} /tmp/{mark}").code == 0

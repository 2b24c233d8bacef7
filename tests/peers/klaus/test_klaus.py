"""What git does with klaus, it does through us."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import frozen

from tests.peers.klaus.klaus_server import serving
from tests.peers.python_packages import install
from tests.stage.boxes import Box, start_box
from tests.stage.gitmoat import opened
from tests.stage.repositories import ALLOWED, bare, git
from tests.waiting import PATIENCE

POLICY = """\
version = 1
name = "klaus"
[[git]]
id = "all"
repos = ["klaus:**"]
fetch = true
push = { branches = ["**"], tags = ["**"], delete = true }
who = ["untrusted"]
"""
BEGIN = """
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_TERMINAL_PROMPT=0
export GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@example.org
set -e
work=$(mktemp -d)
cd "$work"
"""
# `$1` is the URL; afterwards the repository must have the branches that are named.
OPERATIONS = {
    "list": ('test "$(git ls-remote "$1" refs/heads/main | wc -l)" = 1', ["main"]),
    "clone": ('git clone -q "$1" c && git -C c fsck --strict && test -f c/README.md', ["main"]),
    "shallow": ('git clone -q --depth=1 "$1" c && test -f c/README.md', ["main"]),
    "push": (
        'git clone -q "$1" c && cd c && git commit -q --allow-empty -m more'
        " && git push -q origin HEAD:refs/heads/new",
        ["main", "new"],
    ),
    "delete": (
        'git clone -q "$1" c && cd c && git push -q origin HEAD:refs/heads/old'
        " && git push -q origin :refs/heads/old",
        ["main"],
    ),
}
# klaus knows each by its one name, and not with `.git` put behind it or taken off.
SPELLINGS = {"NAME": "bare-{}", "NAME.git": "dotted-{}.git"}


@frozen
class Klaus:
    box: Box
    repositories: Path
    ca_file: Path
    port: int

    def direct(self, name: str, script: str) -> tuple[bool, str]:
        done = subprocess.run(
            ["/bin/sh", "-c", BEGIN + script, "test", f"https://localhost:{self.port}/{name}"],
            capture_output=True,
            env={
                "PATH": "/usr/bin:/bin",
                "HOME": "/nonexistent",
                "GIT_CONFIG_NOSYSTEM": "1",
                "GIT_SSL_CAINFO": str(self.ca_file),
            },
            timeout=PATIENCE,
            check=False,
        )
        return done.returncode == 0, (done.stdout + done.stderr).decode(errors="replace")

    def through(self, name: str, script: str) -> tuple[bool, str]:
        ran = self.box.sh(BEGIN + script, f"http://127.0.0.1:419/localhost:{self.port}/{name}")
        return ran.code == 0, ran.text

    def branches(self, name: str) -> list[str]:
        path = str(self.repositories / f"{name}.git")
        names = git("--git-dir", path, "for-each-ref", "--format=%(refname:short)", "refs/heads")
        return names.split()


@pytest.fixture(scope="module")
def klaus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Klaus]:
    place = tmp_path_factory.mktemp("klaus")
    packages, repositories = place / "packages", place / "repositories"
    install(Path(__file__).with_name("requirements.txt"), packages)
    repositories.mkdir()
    with opened() as stage:
        for operation in OPERATIONS:
            for spelling in SPELLINGS.values():
                for copy in (f"{operation}-direct", operation):
                    # Of a directory's name klaus takes off one `.git`.
                    path = repositories / f"{spelling.format(copy)}.git"
                    shutil.copytree(bare(stage, ALLOWED), path)
        tls = stage.upstream.directory / "tls"
        with serving(packages, repositories, tls, place) as port:
            ca_file = stage.paths.etc / "demo-ca.pem"
            server = ("--url", f"https://localhost:{port}", "--ca-file", str(ca_file))
            added = stage.hostctl("upstream", "add", "klaus", *server, "--cred", "demo")
            added.expect_success("adding klaus")
            (stage.paths.policies / "klaus.toml").write_text(POLICY)
            box = start_box(stage, "--policy", "klaus", repo=None)
            try:
                yield Klaus(box, repositories, ca_file, port)
            finally:
                box.remove()


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_git_works_with_klaus(klaus: Klaus, operation: str, spelling: str) -> None:
    script, branches = OPERATIONS[operation]
    copy, name = (SPELLINGS[spelling].format(each) for each in (f"{operation}-direct", operation))
    worked, said = klaus.direct(copy, script)
    assert worked, said
    assert klaus.branches(copy) == branches
    worked, said = klaus.through(name, script)
    assert worked, said
    assert klaus.branches(name) == branches

"""Other implementations of git clone and push through port 419.

They run in the sandbox's network namespace with its untrusted uid, but with the host's files: a
sandbox has the host's /usr and nothing else that could carry them. git itself is the host's, which
is one version; GITMOAT_TEST_GITS names programs of others (`/opt/git-2.30/bin/git:…`), which no
package archive has side by side.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fidelity.arena import Arena
from tests.fidelity.client_scripts import DULWICH, GIT, LIBGIT2
from tests.stage.repositories import bare, git, refs
from tests.waiting import PATIENCE

ISOMORPHIC = Path(__file__).parent / "isomorphic"
FILES = [".git", "a.txt", "dir", "n2", "n3", "n4", "n5", "n6", "new.txt"]
Words = Callable[[], list[str]]


def isomorphic_git() -> list[str]:
    """Installs what the lock file pins, once per machine and lock file."""
    for program in ("node", "npm"):
        assert shutil.which(program), f"{program} is missing: apt-get install nodejs npm"
    lock = (ISOMORPHIC / "package-lock.json").read_bytes()
    place = Path(tempfile.gettempdir(), f"gitmoat-npm-{hashlib.sha256(lock).hexdigest()[:16]}")
    if not (place / "done").exists():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(mode=0o700)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(ISOMORPHIC / name, place)
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(command, cwd=place, check=True, capture_output=True, timeout=5 * PATIENCE)
        (place / "done").touch()
    assert place.stat().st_uid == os.getuid() and not place.is_symlink()
    return ["node", str(ISOMORPHIC / "client.cjs"), str(place)]


def pygit2() -> list[str]:
    return [sys.executable, "-I", "-c", LIBGIT2]


def dulwich() -> list[str]:
    return [sys.executable, "-I", "-c", DULWICH]


def git_of(program: str) -> Words:
    def words() -> list[str]:
        return ["/bin/sh", "-c", GIT, "test", program]

    words.__name__ = program
    return words


GITS = ["/usr/bin/git", *filter(None, os.environ.get("GITMOAT_TEST_GITS", "").split(":"))]
CLIENTS: list[Words] = [pygit2, dulwich, isomorphic_git, *map(git_of, GITS)]


def run(arena: Arena, client: Words, repository: str, ref: str) -> dict[str, Any]:
    """The client as the untrusted uid; it may read every file of the host, for its own code."""
    seen = arena.box.inspect()
    uid = str(seen["uids"]["untrusted"])
    home = arena.stage.root / f"client-{uuid.uuid4().hex[:8]}"
    home.mkdir(mode=0o700)
    os.chown(home, int(uid), int(uid))
    url = f"http://127.0.0.1:419/localhost:{arena.stage.upstream.port}/{repository}.git"
    read = "--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"
    done = subprocess.run(
        [
            *("nsenter", f"--net=/proc/{seen['pid']}/ns/net"),
            *("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--no-new-privs"),
            *read,
            *(*client(), url, str(home / "clone"), ref),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "USER": "a", "LC_ALL": "C.UTF-8"},
        cwd=home,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.fixture
def repository(arena: Arena) -> str:
    name = f"strict/{uuid.uuid4().hex[:10]}"
    arena.templates.copy("plain", name)
    return name


@pytest.mark.parametrize("client", CLIENTS, ids=lambda each: each.__name__)
def test_client_clones_and_pushes(arena: Arena, repository: str, client: Words) -> None:
    told = run(arena, client, repository, "refs/heads/agent/new")
    assert told["files"] == FILES
    assert told["ok"], told["error"]
    assert refs(arena.stage, repository)["refs/heads/agent/new"] == told["head"]
    fsck = ("fsck", "--full", "--strict", "--no-dangling")
    assert git("--git-dir", str(bare(arena.stage, repository)), *fsck) == ""


@pytest.mark.parametrize("client", CLIENTS, ids=lambda each: each.__name__)
def test_client_is_told_why_its_push_is_refused(
    arena: Arena, repository: str, client: Words
) -> None:
    before = refs(arena.stage, repository)
    told = run(arena, client, repository, "refs/heads/main")
    assert not told["ok"]
    assert "G201" in told["error"], told["error"]
    assert refs(arena.stage, repository) == before

"""Bare repositories for the demo's git server, and what is in them afterwards."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "Demo",
    "GIT_AUTHOR_EMAIL": "demo@gitmoat.invalid",
    "GIT_COMMITTER_NAME": "Demo",
    "GIT_COMMITTER_EMAIL": "demo@gitmoat.invalid",
}


def create_repository(repositories: Path, name: str, files: Mapping[str, bytes]) -> str:
    """Makes `name`.git with one commit of these files on main; returns the commit's id."""
    bare = repositories / f"{name}.git"
    bare.parent.mkdir(parents=True, exist_ok=True)
    git("init", "--quiet", "--bare", "--initial-branch=main", str(bare))
    stream = _import_stream(files)
    git("--git-dir", str(bare), "fast-import", "--quiet", stdin=stream)
    return git("--git-dir", str(bare), "rev-parse", "refs/heads/main")


def ref_of(repositories: Path, name: str, ref: str) -> str | None:
    """The object a ref of the upstream repository points to; None when there is no such ref."""
    bare = repositories / f"{name}.git"
    found = git("--git-dir", str(bare), "for-each-ref", "--format=%(objectname)", ref)
    return found or None


def git(*words: str, stdin: bytes = b"") -> str:
    program = shutil.which("git", path="/usr/bin:/bin") or "git"
    done = subprocess.run(
        [program, *words], input=stdin, capture_output=True, env=_ENVIRONMENT, check=True, cwd="/"
    )
    return done.stdout.decode().strip()


def _import_stream(files: Mapping[str, bytes]) -> bytes:
    head = b"commit refs/heads/main\ncommitter Demo <demo@gitmoat.invalid> 1700000000 +0000\n"
    parts = [head, _data(b"First commit")]
    for path, content in files.items():
        parts.append(b"M 100644 inline %b\n" % path.encode() + _data(content))
    return b"".join(parts) + b"\ndone\n"


def _data(content: bytes) -> bytes:
    return b"data %d\n%b\n" % (len(content), content)

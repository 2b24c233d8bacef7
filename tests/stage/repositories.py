"""Repositories of a git server: making them, changing them, and what reached them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from tests.stage.upstream import LoggedRequest, Upstream

ALLOWED = "acme/app"  # every test's Gitmoat knows these two; the second is in no sandbox's scope
FORBIDDEN = "acme/secrets"
_MIB = 1 << 20
_AUTHOR = b"committer Test <test@gitmoat.invalid> 1700000000 +0000\n"
_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "Test",
    "GIT_AUTHOR_EMAIL": "test@gitmoat.invalid",
    "GIT_COMMITTER_NAME": "Test",
    "GIT_COMMITTER_EMAIL": "test@gitmoat.invalid",
}


class HasUpstream(Protocol):
    """A Gitmoat with its git server, running or not."""

    upstream: Upstream


def git(*words: str, stdin: bytes = b"") -> str:
    """The host's git, with nobody's configuration."""
    done = subprocess.run(
        ["git", *words], input=stdin, capture_output=True, env=_ENVIRONMENT, check=True, cwd="/"
    )
    return done.stdout.decode().strip()


def create_repository(repositories: Path, name: str, files: Mapping[str, bytes]) -> str:
    """Makes `name`.git with one commit of these files on main; returns the commit's id."""
    path = repositories / f"{name}.git"
    path.parent.mkdir(parents=True, exist_ok=True)
    git("init", "--quiet", "--bare", "--initial-branch=main", str(path))
    stream = b"commit refs/heads/main\n" + _AUTHOR + _data(b"First commit")
    for file, content in files.items():
        stream += b"M 100644 inline %b\n" % file.encode() + _data(content)
    git("--git-dir", str(path), "fast-import", "--quiet", stdin=stream + b"\ndone\n")
    return git("--git-dir", str(path), "rev-parse", "refs/heads/main")


def _data(content: bytes) -> bytes:
    return b"data %d\n%b\n" % (len(content), content)


def bare(stage: HasUpstream, repository: str) -> Path:
    return stage.upstream.repositories / f"{repository}.git"


def make_empty(stage: HasUpstream, repository: str, *options: str) -> Path:
    path = bare(stage, repository)
    path.parent.mkdir(parents=True, exist_ok=True)
    git("init", "--quiet", "--bare", "--initial-branch=main", *options, str(path))
    return path


def commit_upstream(
    stage: HasUpstream,
    ref: str,
    content: str,
    repository: str = ALLOWED,
    base: str = "refs/heads/main",
) -> str:
    """One commit more on `ref` (a new one starts at `base`); returns its id."""
    path = str(bare(stage, repository))
    start = ref if ref in refs(stage, repository) else base
    data = content.encode()
    stream = b"commit %b\n%bdata 4\nMore\nfrom %b^0\n" % (ref.encode(), _AUTHOR, start.encode())
    stream += b"M 100644 inline more.txt\ndata %d\n%b\n\ndone\n" % (len(data), data)
    git("--git-dir", path, "fast-import", "--quiet", stdin=stream)
    return git("--git-dir", path, "rev-parse", ref)


def make_large(stage: HasUpstream, repository: str, mebibytes: int) -> str:
    """A repository of random bytes, quickly: nothing is compressed, nothing compared."""
    path = make_empty(stage, repository)
    for key, value in (("core.compression", "0"), ("pack.window", "0")):
        git("--git-dir", str(path), "config", key, value)
    options = ("--quiet", "--done", "--depth=0", "--big-file-threshold=1k")
    writer = subprocess.Popen(
        ["git", "--git-dir", str(path), "fast-import", *options], stdin=subprocess.PIPE
    )
    assert writer.stdin is not None
    with writer.stdin as stream, open("/dev/urandom", "rb") as noise:
        stream.write(b"commit refs/heads/main\n" + _AUTHOR + b"data 5\nLarge\n")
        for number in range(mebibytes):
            stream.write(b"M 100644 inline %03d.bin\ndata %d\n" % (number, _MIB))
            stream.write(noise.read(_MIB) + b"\n")
        stream.write(b"\ndone\n")
    assert writer.wait() == 0
    return git("--git-dir", str(path), "rev-parse", "refs/heads/main")


def refs(stage: HasUpstream, repository: str = ALLOWED) -> dict[str, str]:
    listed = git(
        "--git-dir",
        str(bare(stage, repository)),
        "for-each-ref",
        "--format=%(refname) %(objectname)",
    )
    return dict(line.split(" ", 1) for line in listed.splitlines())


def objects(stage: HasUpstream, repository: str = ALLOWED) -> set[str]:
    """Every object file: a push that did not happen must not have left one. What git had put
    in quarantine belongs to no repository, and may stay when its receive-pack is killed."""
    root = bare(stage, repository) / "objects"
    found = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    return {path for path in found if "incoming" not in path}


def receiving(stage: HasUpstream, repository: str = ALLOWED) -> int:
    """How many bytes the upstream has quarantined while a push is under way."""
    total = 0
    for path in (bare(stage, repository) / "objects").glob("*incoming*/*/*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            pass
    return total


@contextmanager
def reaching_upstream(stage: HasUpstream) -> Iterator[list[LoggedRequest]]:
    """The requests that reach the upstream while the block runs, filled in at its end."""
    seen: list[LoggedRequest] = []
    before = len(stage.upstream.log())
    yield seen
    seen.extend(stage.upstream.log()[before:])


def shapes(requests: list[LoggedRequest]) -> list[str]:
    """`GET /acme/app.git/info/refs?service=git-upload-pack HTTP/1.1` in few words."""
    return [_shape(entry.request) for entry in requests]


def _shape(request: str) -> str:
    method, target, _ = request.split(" ")
    return f"{method} {target.rpartition('/')[2]}"

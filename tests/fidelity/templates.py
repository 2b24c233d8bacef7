"""The upstream's repositories: made once, copied for every script and way."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.stage.gitmoat import Gitmoat
from tests.stage.repositories import git

_WHO = b"A <a@example.org> 17000000%02d +0000\n"
MANY = 2000


def _data(content: bytes) -> bytes:
    return b"data %d\n%b\n" % (len(content), content)


def _commit(ref: bytes, number: int, files: dict[bytes, bytes], parent: bytes = b"") -> bytes:
    head = b"commit %b\nmark :%d\nauthor " % (ref, number) + _WHO % number
    head += b"committer " + _WHO % number + _data(b"Commit %d" % number)
    head += b"from %b\n" % parent if parent else b""
    changes = [b"M 100644 inline %b\n" % path + _data(text) for path, text in files.items()]
    return head + b"".join(changes) + b"\n"


def _history() -> bytes:
    """main with six commits, a branch, two tags, a note, a ref that is no branch."""
    main, topic = b"refs/heads/main", b"refs/heads/topic"
    commits = [_commit(main, 1, {b"a.txt": b"a\n", b"dir/b.txt": b"b\n" * 50})]
    commits += [
        _commit(main, number, {b"a.txt": b"%d\n" % number, b"n%d" % number: b"x"})
        for number in range(2, 7)
    ]
    commits.append(_commit(topic, 7, {b"topic.txt": b"t\n"}, b":4"))
    tag = b"tag v1\nfrom :3\ntagger " + _WHO % 8 + _data(b"Version 1\n")
    light = b"reset refs/tags/light\nfrom :2\n\nreset refs/keep/old\nfrom :1\n\n"
    note = b"commit refs/notes/commits\ncommitter " + _WHO % 9 + _data(b"Note")
    note += b"N inline :6\n" + _data(b"noted\n") + b"\n"
    return b"".join(commits) + tag + light + note + b"done\n"


def _many() -> bytes:
    """So many branches that what a fetch asks for is larger than any post buffer."""
    heads = [_commit(b"refs/heads/main", 1, {b"a.txt": b"a\n"})]
    for number in range(MANY):
        head = b"commit refs/heads/b%d\ncommitter " % number + _WHO % 2 + _data(b"%d" % number)
        heads.append(head + b"from :1\n\n")
    return b"".join(heads) + b"done\n"


def _make(path: Path, stream: bytes, *options: str) -> Path:
    git("init", "-q", "--bare", "--template=", "--initial-branch=main", *options, str(path))
    for key in ("allowFilter", "allowAnySHA1InWant"):
        git("--git-dir", str(path), "config", f"uploadpack.{key}", "true")
    git("--git-dir", str(path), "config", "receive.advertisePushOptions", "true")
    git("--git-dir", str(path), "config", "receive.certNonceSeed", "seed")
    if stream:
        git("--git-dir", str(path), "fast-import", "--quiet", "--done", stdin=stream)
        git("--git-dir", str(path), "repack", "-adq")
        git("--git-dir", str(path), "pack-refs", "--all")
        git("--git-dir", str(path), "update-server-info")
    return path


class Templates:
    def __init__(self, stage: Gitmoat, root: Path) -> None:
        self._stage = stage
        self._root = root
        _make(root / "plain", _history())
        _make(root / "empty", b"")
        _make(root / "many", _many())
        _make(root / "sha256", b"", "--object-format=sha256")
        seed = _make(root / "sha256-full", _history(), "--object-format=sha256")
        assert len(git("--git-dir", str(seed), "rev-parse", "main")) == 64

    def copy(self, template: str, repository: str) -> None:
        path = self._stage.upstream.repositories / f"{repository}.git"
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(self._root / template, path)

    def with_modules(self, repository: str, urls: dict[str, str]) -> None:
        """A copy of `plain` whose main names these submodules."""
        self.copy("plain", repository)
        path = str(self._stage.upstream.repositories / f"{repository}.git")
        commit = git("--git-dir", str(self._root / "plain"), "rev-parse", "main")
        text = "".join(
            f'[submodule "{name}"]\n\tpath = {name}\n\turl = {url}\n' for name, url in urls.items()
        )
        stream = b"commit refs/heads/main\ncommitter " + _WHO % 20 + _data(b"Modules")
        stream += b"from refs/heads/main^0\nM 100644 inline .gitmodules\n" + _data(text.encode())
        for name in urls:
            stream += b"M 160000 %b %b\n" % (commit.encode(), name.encode())
        git("--git-dir", path, "fast-import", "--quiet", "--done", stdin=stream + b"\ndone\n")

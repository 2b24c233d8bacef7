"""git's own source, built once and kept, as a tree in which its `t/` can be run."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from attrs import frozen

from tests.peers import cache
from tests.peers.source_package import fetch_upstream_source

HERE = Path(__file__).parent
_BUILD_SECONDS = 3600
# Quickly built, and small: no optimisation, no debug information.
_MAKE = ("make", "-j2", "CFLAGS=-O0", "LDFLAGS=-s", "NO_TCLTK=1", "NO_PYTHON=1")
_BUILT_IN = "/gitmoat-peers/git"  # stands in the archive for where the tree will be


@frozen
class Tree:
    root: Path

    @property
    def scripts(self) -> Path:
        return self.root / "t"


def installed_version() -> str:
    """Of the git that the product is used with: its tests are those that we run."""
    said = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout
    found = re.fullmatch(r"git version (\d+(?:\.\d+)*)\s*", said)
    assert found, said
    return found[1]


def source(version: str) -> Path:
    return cache.fetched(
        f"git_{version}.orig.tar.xz", lambda into: fetch_upstream_source("git", into)
    )


def archive(version: str) -> Path:
    tarball = source(version)
    made_of = f"{cache.checksums()[tarball.name]} {_MAKE}"

    def build(into: Path) -> None:
        tree = into / "tree"
        tree.mkdir()
        _run("tar", "-xf", tarball, "-C", tree, "--strip-components=1")
        print(f"peers: building git {version}", flush=True)
        _run("nice", "-n", "10", *_MAKE, cwd=tree)
        for wrapper in (tree / "bin-wrappers").iterdir():
            wrapper.write_text(wrapper.read_text().replace(str(tree), _BUILT_IN))
        left_out = ("--exclude=*.o", "--exclude=*.a", "--exclude=./Documentation")
        _run("tar", "-cf", into / "git.tar", *left_out, "-C", tree, ".")

    return cache.built("git.tar", made_of, build)


def unpacked(into: Path) -> Tree:
    """With a lib-httpd.sh that knows of something between git and Apache."""
    _run("tar", "-xf", archive(installed_version()), "-C", into)
    for wrapper in (into / "bin-wrappers").iterdir():
        wrapper.write_text(wrapper.read_text().replace(_BUILT_IN, str(into)))
    _run("git", "apply", HERE / "lib-httpd.patch", cwd=into)
    for script in (into / "t").glob("t[0-9]*.sh"):
        text = script.read_text(encoding="latin-1")
        # The same place, said in another way than everywhere else.
        same = text.replace("http://127.0.0.1:$LIB_HTTPD_PORT", "$HTTPD_URL")
        if same != text:
            script.write_text(same, encoding="latin-1")
    return Tree(into)


def _run(*words: str | Path, cwd: Path | None = None) -> None:
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "HOME": "/nonexistent"},
        timeout=_BUILD_SECONDS,
        check=False,
    )
    if done.returncode:
        said = done.stdout[-3000:].decode(errors="replace")
        raise cache.PeerMissing(f"{words[0]} failed: {said}")

"""Images for the tests, made of this machine's own programs: nothing is pulled.

Each is a tree packed with tar and given to `docker import`.
"""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

# What a small Debian has, as far as the tests use it.
_DEBIAN = (
    "sh", "bash", "env", "cat", "ls", "head", "sleep", "true", "false", "id", "tar", "mkdir",
    "test", "rm", "ln", "chmod", "git", "grep", "sort", "tail", "dd", "touch", "seq",
)  # fmt: skip
_APPLETS = (
    "sh", "env", "cat", "ls", "head", "sleep", "true", "false", "id", "tar", "mkdir", "test", "rm",
    "ln", "chmod", "nc", "grep", "sort", "tail", "dd", "touch", "seq", "timeout",
)  # fmt: skip
_GIT_CORE = ("git", "git-remote-http", "git-remote-https", "git-credential-cache")
_CLIENTS = ("curl", "wget", "python3", "node", "apt-get", "apt-config", "dpkg", "gzip")
_LEFT_OUT = {"__pycache__", "test", "tests", "idlelib", "ensurepip", "docs", "man"}
_LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")


def _which(name: str) -> Path:
    for directory in ("/usr/bin", "/bin", "/usr/sbin"):
        found = Path(directory, name)
        if found.exists():
            return found
    raise FileNotFoundError(name)


@cache
def _libraries(program: Path) -> set[str]:
    with program.open("rb") as file:
        if file.read(4) != b"\x7fELF":
            return set()
    listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
    return set(_LIBRARY.findall(listed.stdout))


def _git_core() -> list[Path]:
    where = subprocess.run(["git", "--exec-path"], capture_output=True, text=True, check=True)
    return [Path(where.stdout.strip(), name) for name in _GIT_CORE]


class Tree:
    """Files of an image, each once."""

    def __init__(self) -> None:
        self._archive = io.BytesIO()
        self._tar = tarfile.TarFile(fileobj=self._archive, mode="w")
        self._seen: set[str] = set()

    def copy(self, path: Path, name: str | None = None) -> None:
        """The file itself, whatever links lead to it, and the libraries it needs."""
        target = (name or str(path)).lstrip("/")
        if target in self._seen:
            return
        self.write(target, path.resolve().read_bytes(), 0o755)
        for library in sorted(_libraries(path)):
            self.copy(Path(library))

    def copy_tree(self, directory: Path) -> None:
        """All of it but what was compiled from it or only tests it; links as what they lead to."""
        for path in sorted(directory.rglob("*")):
            if path.is_file() and not _LEFT_OUT & set(path.parts):
                self.copy(path)

    def write(self, target: str, data: bytes, mode: int = 0o644) -> None:
        self._seen.add(target)
        entry = tarfile.TarInfo(target)
        entry.size, entry.mode = len(data), mode
        self._tar.addfile(entry, io.BytesIO(data))

    def link(self, target: str, to: str) -> None:
        entry = tarfile.TarInfo(target)
        entry.type, entry.linkname = tarfile.SYMTYPE, to
        self._tar.addfile(entry)

    def directories(self, names: Iterable[str]) -> None:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            self._tar.addfile(entry)

    def packed(self) -> bytes:
        self._tar.close()
        return self._archive.getvalue()


def _with_git(tree: Tree) -> None:
    for program in _git_core():
        tree.copy(program)
    tree.copy(_which("git"), "usr/bin/git")
    tree.write("usr/share/git-core/templates/description", b"made by a test\n")


def debian_like() -> bytes:
    """The names and places of Debian; dynamic programs; no Python."""
    tree = Tree()
    tree.directories(["usr", "usr/bin", "usr/lib", "tmp", "var", "etc", "root"])
    for name in _DEBIAN:
        tree.copy(_which(name), f"usr/bin/{name}")
    tree.link("bin", "usr/bin")
    _with_git(tree)
    tree.write("etc/passwd", b"root:x:0:0:root:/root:/bin/bash\n")
    tree.write("etc/group", b"root:x:0:\n")
    return tree.packed()


def with_clients() -> bytes:
    """As the first, with the clients of other hosts that this machine has."""
    tree = Tree()
    tree.directories(["usr", "usr/bin", "usr/lib", "tmp", "var", "etc", "root"])
    tree.directories(["etc/apt", "etc/apt/apt.conf.d"])
    for name in (*_DEBIAN, *_CLIENTS):
        tree.copy(_which(name), f"usr/bin/{name}")
    tree.link("bin", "usr/bin")
    _with_git(tree)
    version = _which("python3").resolve().name
    npm, apt = "/usr/lib/node_modules/npm", ("/usr/lib/apt", "/usr/share/dpkg")
    for directory in (f"/usr/lib/{version}", npm, *apt):
        tree.copy_tree(Path(directory))
    tree.link("usr/bin/npm", "../lib/node_modules/npm/bin/npm-cli.js")
    tree.write("etc/passwd", b"root:x:0:0:root:/root:/bin/bash\n")
    tree.write("etc/group", b"root:x:0:\n")
    return tree.packed()


def with_python() -> bytes:
    """As the first, with what the demo asks of an image."""
    tree = Tree()
    tree.directories(["usr", "usr/bin", "usr/lib", "tmp", "var", "etc", "root"])
    for name in (*_DEBIAN, "python3"):
        tree.copy(_which(name), f"usr/bin/{name}")
    tree.link("bin", "usr/bin")
    _with_git(tree)
    tree.copy_tree(Path(f"/usr/lib/{_which('python3').resolve().name}"))
    return tree.packed()


def busybox_like() -> bytes:
    """One static program under many names, and git in a place of its own; no Python, no bash."""
    tree = Tree()
    tree.directories(["bin", "etc", "tmp", "usr", "usr/bin"])
    tree.copy(_which("busybox"), "bin/busybox")
    for name in _APPLETS:
        tree.link(f"bin/{name}", "busybox")
    _with_git(tree)
    return tree.packed()


def hostile() -> bytes:
    """As the first, with everything in it set against who runs it."""
    tree = Tree()
    tree.directories(["usr", "usr/bin", "etc", "tmp", "evil", "root"])
    for name in _DEBIAN:
        tree.copy(_which(name), f"usr/bin/{name}")
    tree.link("bin", "usr/bin")
    _with_git(tree)
    config = (
        b'[url "http://127.0.0.1:9/"]\n\tinsteadOf = https://\n'
        b"[http]\n\tproxy = http://127.0.0.1:9\n"
        b"[core]\n\thooksPath = /evil\n\tfsmonitor = /evil/ran\n"
        b"[credential]\n\thelper = !/evil/ran\n[init]\n\tdefaultBranch = theirs\n"
    )
    for name in ("etc/gitconfig", "root/.gitconfig", "evil/gitconfig", "evil/git/config"):
        tree.write(name, config)
    tree.write("evil/ran", b"#!/bin/sh\ntouch /workspace/evil-ran\n", 0o755)
    tree.write("evil/pre-push", b"#!/bin/sh\nexit 1\n", 0o755)
    # A name for every uid that a test's sandbox may have would be many; root's groups are enough.
    tree.write("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nevil:x:0:0::/evil:/bin/sh\n")
    tree.write("etc/group", b"root:x:0:\ndocker:x:999:root,evil\nshadow:x:42:evil\n")
    return tree.packed()


HOSTILE_CHANGES = (
    "USER evil:docker",
    "ENV GIT_CONFIG_SYSTEM=/evil/gitconfig GIT_CONFIG_GLOBAL=/evil/gitconfig GIT_SSL_NO_VERIFY=1",
    "ENV GIT_CONFIG_NOSYSTEM=1 GIT_PROXY_COMMAND=/evil/ran GIT_ASKPASS=/evil/ran",
    "ENV XDG_CONFIG_HOME=/evil HOME=/evil http_proxy=http://127.0.0.1:9 ALL_PROXY=http://127.0.0.1:9",
    "ENV GIT_EXEC_PATH=/evil GIT_DIR=/evil GIT_WORK_TREE=/evil LD_LIBRARY_PATH=/evil",
    'ENTRYPOINT ["/evil/ran"]',
    "WORKDIR /evil",
    "VOLUME /evil/volume",
    "HEALTHCHECK --interval=1s CMD /evil/ran",
    "LABEL gitmoat.instance=another gitmoat.sandbox=another",
)


def each() -> Iterator[tuple[str, bytes, tuple[str, ...]]]:
    yield "debian", debian_like(), ()
    yield "busybox", busybox_like(), ("ENV PATH=/bin:/usr/bin",)
    yield "hostile", hostile(), HOSTILE_CHANGES

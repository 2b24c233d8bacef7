"""git itself: clone, push and ls-remote of real repositories."""

from __future__ import annotations

import os
import subprocess
import uuid
from pathlib import Path

from attrs import define, field

from bench import repositories
from bench.chains.way import Way
from bench.rows.transfers import Values

# Runs a program, and writes how long that took: without what brought it to where it stands.
_TIMED = """
import os, sys, time
begun = time.perf_counter()
child = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)
status = os.waitpid(child, 0)[1]
os.write(int(sys.argv[1]), repr(time.perf_counter() - begun).encode())
sys.exit(os.waitstatus_to_exitcode(status))
"""
SHAPES = {
    "clone small": repositories.SMALL,
    "clone large pack": repositories.LARGE,
    "clone many refs": repositories.REFS,
    "clone many objects": repositories.OBJECTS,
}


@define(eq=False)
class Gits:
    """`scratch` is where clients write; `upstream` the repositories, `source` what is pushed."""

    scratch: Path
    upstream: Path
    source: Path
    _homes: dict[str, Path] = field(factory=dict)

    def clone(self, way: Way, row: str) -> Values:
        target = self._home(way) / uuid.uuid4().hex
        seconds = self._git(way, "clone", "-q", "--bare", way.url(SHAPES[row]), str(target))
        subprocess.run(["rm", "-rf", str(target)], check=True)
        return {row: (seconds, "s")}

    def ls_remote(self, way: Way) -> Values:
        return {"ls-remote": (self._git(way, "ls-remote", way.url(repositories.SMALL)), "s")}

    def push(self, way: Way) -> Values:
        repositories.empty(self.upstream, repositories.PUSHED)
        words = ("push", "-q", way.url(repositories.PUSHED), "main:refs/heads/main")
        return {"push": (self._git(way, "--git-dir", str(self.source), *words), "s")}

    def _git(self, way: Way, *words: str) -> float:
        home = self._home(way)
        where = ("env", "-i", "-C", str(home), "PATH=/usr/bin:/bin", f"HOME={home}")
        reading, writing = os.pipe()
        timed = ("/usr/bin/python3", "-IS", "-c", _TIMED, str(writing), "/usr/bin/git", *words)
        command = way.words(*where, "GIT_TERMINAL_PROMPT=0", *timed)
        with open(reading, encoding="ascii") as took:
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, timeout=600, pass_fds=(writing,)
                )
            finally:
                os.close(writing)
            seconds = took.read()
        if done.returncode:
            raise RuntimeError(f"{way.name}: git {words[0]}: {done.stderr[-2000:]}")
        return float(seconds)

    def _home(self, way: Way) -> Path:
        if way.name not in self._homes:
            home = self.scratch / way.name
            home.mkdir(mode=0o700)
            lines = ["[safe]", "\tdirectory = *", "[gc]", "\tauto = 0", "[core]"]
            lines += ["\tcompression = 0", "[pack]", "\twindow = 0", "[http]"]
            lines += [f"\tsslCAInfo = {way.ca}"] if way.ca else []
            lines += [f"\textraHeader = Authorization: {way.authorization}"] * bool(way.ca)
            (home / ".gitconfig").write_text("\n".join(lines) + "\n")
            for path in (home, home / ".gitconfig"):
                os.chown(path, way.doors[0].uid, way.doors[0].uid)
            self._homes[way.name] = home
        return self._homes[way.name]

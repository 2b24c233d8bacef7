"""Starts a sidecar as hostd's zygote does: warm, fork, confine, run. For tests only.

argv: empty root, open files, uid, the four listeners. Standard input is the configuration.
"""

from __future__ import annotations

import gc
import os
import sys

from gitmoat.confine import linux, profiles
from gitmoat.confine.confining import Confinement, Limits, confine
from gitmoat.confine.seccomp import compile_profile
from gitmoat.listeners import named
from sidecar import service
from sidecar.prefork.warmup import warm


class LateImports:
    """Says what is looked for after the fork; that most of it cannot be found is another matter."""

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        print(f"late import: {name}", file=sys.stderr, flush=True)


def run_child(config: bytes, root: str, files: int, uid: int, fds: list[int]) -> None:
    linux.close_all_but([1, 2, *fds])
    limits = Limits(open_files=files, processes=1, file_size=1 << 20, address_space=1 << 30)
    filtered = compile_profile(profiles.SIDECAR)
    sys.meta_path.insert(0, LateImports())
    confine(Confinement(uid=uid, gid=uid, limits=limits, seccomp=filtered, root=root, writable=()))
    service.main(config, named(fds))


def main() -> None:
    root, files, uid, *fds = sys.argv[1:]
    config = sys.stdin.buffer.read()
    warm()
    gc.collect()
    gc.freeze()
    gc.disable()
    pid = os.fork()
    if pid == 0:
        try:
            run_child(config, root, int(files), int(uid), [int(fd) for fd in fds])
            os._exit(0)
        finally:
            os._exit(125)
    print(pid, flush=True)
    _, status = os.waitpid(pid, 0)
    sys.exit(os.waitstatus_to_exitcode(status) & 0xFF)


if __name__ == "__main__":
    main()

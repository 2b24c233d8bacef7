"""The zygote: forks sidecars, whose modules it has imported, having run one.

It forks nothing else: it is large, and each page that it writes is no longer shared with the
sidecars that it forked before.
"""

from __future__ import annotations

import os
import socket
import sys

from gitmoat.confine import linux, profiles
from gitmoat.confine.confining import Confinement, Limits, confine
from gitmoat.confine.seccomp import compile_profile
from gitmoat.listeners import named
from hostd.process.fork_server import ForkServer, join_cgroups, run
from hostd.process.requests import Request, Sidecar
from sidecar import service
from sidecar.budgets import DESCRIPTORS
from sidecar.prefork.warmup import warm

_MIB = 1024 * 1024
_OOM_SCORE = -500  # killed after everything of a sandbox, before hostd and the broker (proc(5))


class Zygote(ForkServer):
    lasting = (Sidecar,)

    def __init__(self, link: socket.socket) -> None:
        super().__init__(link)
        self._seccomp = compile_profile(profiles.SIDECAR)

    def answer(self, number: int, request: Request, descriptors: list[int], problems: int) -> None:
        if not isinstance(request, Sidecar):
            raise ValueError("not for the zygote")
        self._answer_sidecar(request, descriptors, problems)

    def _answer_sidecar(self, request: Sidecar, descriptors: list[int], problems: int) -> None:
        namespace, configured, log, *listeners = descriptors
        linux.setns(namespace, linux.CLONE_NEWNET)
        with open(configured, "rb", closefd=False) as file:
            configuration = file.read()
        join_cgroups(request.cgroups)
        linux.offer_as_victim(_OOM_SCORE)
        os.setsid()
        os.dup2(log, 1)
        os.dup2(log, 2)
        linux.close_all_but([1, 2, problems, *listeners])
        confine(
            Confinement(
                uid=request.uid,
                gid=request.uid,
                limits=Limits(
                    open_files=DESCRIPTORS,
                    processes=1,
                    file_size=16 * _MIB,
                    address_space=1024 * _MIB,
                ),
                seccomp=self._seccomp,
                root=request.empty_root,
                writable=(),
            )
        )
        os.close(problems)
        service.main(configuration, named(listeners))


def _warm() -> None:
    linux.keep_large_blocks()
    warm()


if __name__ == "__main__":
    run(Zygote, prepare=_warm)
    sys.exit(0)

"""A process that forks sidecars: it has imported all that they need, and has run one.

Nothing else is forked from it. It is large, and a page that it writes to is no longer shared with
the sidecars that it forked before.
"""

from __future__ import annotations

import os
import socket
import sys

from confine import linux, profiles
from confine.process import Confinement, Limits, confine
from confine.seccomp import compile_profile
from hostd.forking import Forker, Request, join_cgroups, run
from sidecar import service
from sidecar.budgets import DESCRIPTORS
from sidecar.inherited import Inherited
from sidecar.warmup import warm

_MIB = 1024 * 1024
_VICTIM = -500  # later than everything of a sandbox, before hostd and the broker


class Zygote(Forker):
    lasting = ("sidecar",)

    def __init__(self, link: socket.socket) -> None:
        super().__init__(link)
        self._seccomp = compile_profile(profiles.SIDECAR)
        self.tasks = {
            "sidecar": self._sidecar,
        }

    def _sidecar(self, request: Request, descriptors: list[int], problems: int) -> None:
        """Descriptors: netns, configuration, log, then the listeners of `Inherited`."""
        linux.setns(descriptors[0], linux.CLONE_NEWNET)
        with open(descriptors[1], "rb", closefd=False) as file:
            configuration = file.read()
        join_cgroups(request["cgroups"])
        linux.offer_as_victim(_VICTIM)
        os.setsid()
        os.dup2(descriptors[2], 1)
        os.dup2(descriptors[2], 2)
        listeners = descriptors[3:]
        linux.close_all_but([1, 2, problems, *listeners])
        confine(
            Confinement(
                uid=request["uid"],
                gid=request["uid"],
                limits=Limits(
                    open_files=DESCRIPTORS,
                    processes=1,
                    file_size=16 * _MIB,
                    address_space=1024 * _MIB,
                ),
                seccomp=self._seccomp,
                root=request["empty_root"],
                writable=(),
            )
        )
        os.close(problems)
        service.main(configuration, Inherited(*listeners))


def _warm() -> None:
    linux.keep_large_blocks()
    warm()


if __name__ == "__main__":
    run(Zygote, prepare=_warm)
    sys.exit(0)

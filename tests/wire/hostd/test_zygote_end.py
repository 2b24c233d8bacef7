"""Who forks for hostd ends with it, and says nothing about it."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from tests.waiting import PATIENCE


@pytest.mark.parametrize("module", ["hostd.launcher", "hostd.zygote"])
@pytest.mark.parametrize("unread", [False, True], ids=["at its end", "killed unread"])
def test_it_ends_in_silence_when_hostd_has_gone(unread: bool, module: str) -> None:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with near, far:
        command = [sys.executable, "-P", "-m", module, str(far.fileno())]
        forker = subprocess.Popen(
            command, pass_fds=[far.fileno()], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        far.close()
        near.send(b"not a request")
        near.recv(4096, 0 if not unread else socket.MSG_PEEK)
        near.close()
        said, _ = forker.communicate(timeout=PATIENCE)
    assert (forker.returncode, said) == (0, b"")

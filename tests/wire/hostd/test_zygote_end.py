"""A zygote ends with its hostd, and says nothing about it."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest


@pytest.mark.parametrize("unread", [False, True], ids=["at its end", "killed unread"])
def test_it_ends_in_silence_when_hostd_has_gone(unread: bool) -> None:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with near, far:
        command = [sys.executable, "-P", "-m", "hostd.zygote", str(far.fileno())]
        zygote = subprocess.Popen(
            command, pass_fds=[far.fileno()], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        far.close()
        near.send(b"not a request")
        near.recv(4096, 0 if not unread else socket.MSG_PEEK)
        near.close()
        said, _ = zygote.communicate(timeout=60)
    assert (zygote.returncode, said) == (0, b"")

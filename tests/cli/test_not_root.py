"""Who is not root is told so in one error, before anything is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.daemon import FakeDaemon
from tests.stage.nobody import as_nobody


@pytest.mark.parametrize(
    "words",
    [
        ["up"],
        ["down"],
        ["demo"],
        ["audit", "query"],
        ["cred", "ls"],
        ["reload"],
        ["upstream", "add", "x", "--url", "https://h", "--cred", "c"],
    ],
    ids=lambda words: words[0],
)
def test_verbs_that_need_root_say_so(root: Path, words: list[str]) -> None:
    done = as_nobody(root, *words)
    assert done.returncode == 7
    assert done.stderr.splitlines() == [
        f"error: `hostctl {words[0]}` needs root [C102]",
        "why: only uid 0 may use the control sockets",
        "fix: use sudo",
    ]
    assert list(root.iterdir()) == []


def test_a_control_socket_of_root_is_out_of_reach(root: Path) -> None:
    root.chmod(0o755)
    socket = root / "run" / "gitmoat" / "hostd.sock"
    with FakeDaemon(socket, {"ls": {"ok": True, "items": []}}) as daemon:
        done = as_nobody(root, "ls")
    assert (done.returncode, daemon.requests) == (7, [])
    assert done.stderr.startswith("error: not permitted to talk to hostd [C102]\n")

"""A hostd that the product starts stands still for nobody: it was handed no failpoints."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.failpoints import StandsStill
from tests.stage.instance import Instance, make_instance
from tests.stage.kernel_view import descriptors, processes
from tests.waiting import eventually

_SEQPACKET = "0005"
OPTION = "--failpoints-fd"


@pytest.fixture
def instance() -> Iterator[Instance]:
    made = make_instance()
    made.hostctl("up").expect_success("hostctl up")
    yield made
    made.remove()


def packet_sockets(pid: int) -> set[str]:
    """The sockets of sequenced packets among a process's descriptors."""
    lines = Path("/proc/net/unix").read_text().splitlines()[1:]
    found = {f"socket:[{line.split()[6]}]" for line in lines if line.split()[4] == _SEQPACKET}
    return found & set(descriptors(pid).values())


def test_what_hostctl_up_starts_has_none(instance: Instance) -> None:
    """Two such sockets, of launcher and zygote: there is none left for a test to speak through."""
    about = instance.status()["hostd"]
    assert OPTION not in processes()[about["pid"]]
    assert len(packet_sockets(about["pid"])) == 2
    assert [len(packet_sockets(about[name])) for name in ("launcher", "zygote")] == [1, 1]


def test_one_that_a_test_starts_shows_them(instance: Instance) -> None:
    """The control: this is where they would be seen."""
    old = instance.status()["hostd"]["pid"]
    os.kill(old, 9)
    eventually(lambda: old not in processes(), "its end")
    with closing(StandsStill()) as stands_still:
        daemon = stands_still.start(instance.paths)
        try:
            assert OPTION in processes()[daemon.process.pid]
            assert len(packet_sockets(daemon.process.pid)) == 3
        finally:
            daemon.stop()

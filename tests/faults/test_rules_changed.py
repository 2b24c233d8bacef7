"""Rules, interfaces and settings of a sandbox's network, changed from outside: no access then."""

from __future__ import annotations

import subprocess

import pytest

from tests.faults.world import Machine, ended
from tests.waiting import eventually

CHANGES = {
    "flushed": "nft flush ruleset",
    "widened": "nft insert rule inet gitmoat lo_syn accept",
    "emptied": "nft delete table inet gitmoat; nft add table inet gitmoat",
    "given an interface": "ip link add vx0 type veth peer name vx1",
    "given low ports": "echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_sandbox_whose_network_was_changed_is_stopped_and_says_so(
    world: Machine, change: str
) -> None:
    with world.box(repo=None) as box:
        about = world.inspect(box.name)
        records = len(world.audit("N207"))
        enter = ["nsenter", f"--net=/proc/{about['pid']}/ns/net", "sh", "-c", CHANGES[change]]
        subprocess.run(enter, check=True)
        eventually(lambda: world.items()[box.name]["state"] == "stopped", "the freeze")
        assert ended(about["sidecar"]["pid"]) and ended(about["pid"])
        assert box.name not in world.sessions().values()
        record = world.audit("N207")[records:]
        assert [(entry["op"], entry["sandbox"]) for entry in record] == [
            ("freeze", about["sandbox"])
        ]
        assert record[0]["reason"]
        assert "[R106]" in box.run("true").err
        world.ask("start", sandbox=box.name)  # with rules that hold again
        box.run("true").expect_success("the next command")

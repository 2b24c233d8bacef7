"""Rules changed from outside, and rules that could not be loaded: no access without them."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostctl.daemons import clean_environment
from tests.faults.inventory import assert_settles, at_rest
from tests.faults.world import World, git_works
from tests.live.boxes import alive, eventually

pytestmark = pytest.mark.live

CHANGES = {
    "flushed": "nft flush ruleset",
    "widened": "nft insert rule inet gitmoat lo_syn accept",
    "counted anew": "nft delete table inet gitmoat; nft add table inet gitmoat",
    "given an interface": "ip link add vx0 type veth peer name vx1",
    "given low ports": "echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_sandbox_whose_network_was_changed_is_stopped_and_says_so(
    world: World, change: str
) -> None:
    with world.box("--agent") as box:
        about = world.inspect(box.name)
        records = len(world.audit("N207"))
        enter = ["nsenter", f"--net=/proc/{about['pid']}/ns/net", "sh", "-c", CHANGES[change]]
        subprocess.run(enter, check=True)
        eventually(lambda: world.items()[box.name]["state"] == "stopped", "the freeze")
        assert not alive(about["sidecar"]["pid"]) and not alive(about["pid"])
        assert box.name not in world.sessions().values()
        record = world.audit("N207")[records:]
        assert [(entry["op"], entry["sandbox"]) for entry in record] == [
            ("freeze", about["sandbox"])
        ]
        assert record[0]["reason"]
        assert "[R106]" in box.run("true").err
        world.ask("start", sandbox=box.name)  # with rules that hold again
        git_works(box)


REAL = "/usr/sbin/nft"
# What stands in nft's place, what `hostctl run` then says, and why.
BROKEN = {
    "not executable": (None, "[R102]"),
    "failing": ("exit 1", "[N102]"),
    "doing nothing": ("cat > /dev/null", "[N102]"),
    "losing a rule": (r"grep -v 'dport 418 ' | $REAL -f -", "[N203]"),
    "letting everybody in": (r"sed 's/\(dport 418\) meta skuid [0-9]*/\1/' | $REAL -f -", "[N203]"),
}


@pytest.fixture(scope="module")
def fake(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """nft as hostd finds it, which runs in a mount namespace of its own."""
    fake = tmp_path_factory.mktemp("nft") / "nft"
    fake.touch()
    shutil.copy(REAL, fake.with_name("real"))
    up = shlex.join([sys.executable, "-P", "-m", "hostctl", "--root", str(world.stage.root), "up"])
    enter = ["unshare", "--mount", "sh", "-c", f"mount --bind {fake} {REAL} && exec {up}"]
    world.kill("hostd")
    subprocess.run(enter, env=clean_environment(), capture_output=True, check=True)
    yield fake
    world.kill("hostd")


@pytest.mark.parametrize("kind", BROKEN)
def test_a_sandbox_without_its_rules_is_never_made(world: World, kind: str, fake: Path) -> None:
    script, code = BROKEN[kind]
    real = fake.with_name("real")
    fake.write_text(f'#!/bin/sh\nREAL={real}\n[ "$1" = list ] && exec $REAL "$@"\n{script}\n')
    fake.chmod(0o644 if script is None else 0o755)
    before = at_rest(world)
    ran = world.stage.hostctl("run", "--rm", "--", "touch", "/workspace/ran")
    assert ran.code == 125
    assert code in ran.err, ran.err
    assert_settles(world, before)

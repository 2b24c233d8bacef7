"""Rules that could not be loaded, or not all of them: no sandbox then, and nothing left of it."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostctl.setup.daemons import clean_environment
from tests.faults.inventory import assert_settles, at_rest
from tests.faults.world import Machine
from tests.stage.command import command

REAL = "/usr/sbin/nft"
# What stands in nft's place, what `hostctl run` then says, and why.
BROKEN = {
    "not executable": (None, "[R102]"),
    "failing": ("exit 1", "[N102]"),
    "doing nothing": ("cat > /dev/null", "[N102]"),
    "losing a rule": (r"grep -v 'dport 418 ' | $REAL -f -", "[N203]"),
    "leaving an interface": (
        "ip link add vx0 type veth peer name vx1; exec $REAL -f -",
        "[N101]",
    ),
    "letting datagrams out": (
        "ip route add local 203.0.113.0/24 dev lo; $REAL -f - || exit 1\n"
        "$REAL insert rule inet gitmoat output ip daddr 203.0.113.53 accept",
        "[N201]",
    ),
    # Without a pause: what is set right later is wrong again before anybody looks.
    "opening low ports, again and again": (
        "while [ -e ${REAL%real}going ]\n"
        "do echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start\n"
        "done </dev/null >/dev/null 2>&1 &\nexec $REAL -f -",
        "[N206]",
    ),
    "letting everybody in": (r"sed 's/\(dport 418\) meta skuid [0-9]*/\1/' | $REAL -f -", "[N203]"),
}


@pytest.fixture(scope="module")
def fake(world: Machine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """nft as hostd finds it, which runs in a mount namespace of its own."""
    fake = tmp_path_factory.mktemp("nft") / "nft"
    fake.touch()
    shutil.copy(REAL, fake.with_name("real"))
    up = shlex.join(command(world.stage.root, "up"))
    enter = ["unshare", "--mount", "sh", "-c", f"mount --bind {fake} {REAL} && exec {up}"]
    world.kill("hostd")
    subprocess.run(enter, env=clean_environment(), capture_output=True, check=True)
    yield fake
    world.kill("hostd")


@pytest.mark.parametrize("kind", BROKEN)
def test_a_sandbox_without_its_rules_is_never_made(world: Machine, kind: str, fake: Path) -> None:
    script, code = BROKEN[kind]
    real = fake.with_name("real")
    fake.write_text(f'#!/bin/sh\nREAL={real}\n[ "$1" = list ] && exec $REAL "$@"\n{script}\n')
    fake.chmod(0o644 if script is None else 0o755)
    before = at_rest(world)
    going = fake.with_name("going")
    going.touch()
    ran = world.stage.hostctl("run", "--rm", "--", "touch", "/workspace/ran")
    going.unlink()
    assert ran.code == 125
    assert code in ran.err, ran.err
    assert_settles(world, before)

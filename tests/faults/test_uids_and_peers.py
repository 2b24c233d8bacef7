"""Three uids that are nobody else's; and the credential socket knows one gate from another."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.faults.world import Machine
from tests.stage.boxes import Box
from tests.waiting import PATIENCE, end, ends_with_its_test, eventually

_ASK = """
import json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(100)
s.connect(sys.argv[1])
try:
    s.sendall(sys.argv[2].encode())
    s.shutdown(socket.SHUT_WR)
    answer = s.recv(4096).decode()
except OSError:
    answer = ""
print(json.dumps(answer))
"""


def uids(world: Machine, box: Box) -> dict[str, int]:
    found: dict[str, int] = world.inspect(box.name)["uids"]
    return found


def test_uids_are_not_used_again_at_once_not_even_by_another_hostd(world: Machine) -> None:
    seen: list[int] = []
    for _ in range(3):
        with world.box(repo=None) as box:
            seen += uids(world, box).values()
        world.kill("hostd")
        world.up()
    assert len(set(seen)) == 9
    assert seen == sorted(seen)


def test_uids_of_a_running_process_are_passed_over(world: Machine) -> None:
    with world.box(repo=None) as box:
        last = uids(world, box)["untrusted"]
    for stranger in (last + 1, last + 5):  # of the next sandbox, and of the one after it
        process = subprocess.Popen([*as_uid(stranger), "sleep", "infinity"])
        ends_with_its_test(process)
        eventually(lambda: _real_uid(process.pid) == stranger, "the stranger")  # noqa: B023
        with world.box(repo=None) as box:
            first, taken = last + 1, set(uids(world, box).values())
            assert stranger not in taken
            assert taken.isdisjoint(range(first, first + 3)) == (stranger == first)
            last = max(taken)
        end(process)


def _real_uid(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Uid:"))


def as_uid(uid: int) -> list[str]:
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]


def request(world: Machine) -> str:
    place = f"localhost:{world.stage.upstream.port}/acme/app.git"
    return f"action=get\ntimeout=900\nprotocol=http\nhost=127.0.0.1:418\npath={place}\n"


def ask_from_outside(world: Machine, box: Box, uid: int) -> str:
    """A process of the host, in its cgroup; only the working directory lets it reach the socket."""
    folder = world.stage.paths.sandboxes_run / str(world.inspect(box.name)["sandbox"])
    python = ("/usr/bin/python3", "-I", "-c", _ASK, "cred.sock", request(world))
    ran = subprocess.run([*as_uid(uid), *python], cwd=folder, capture_output=True, timeout=PATIENCE)
    answer: str = json.loads(ran.stdout)
    return answer


def ask_as_helper(world: Machine, box: Box) -> str:
    words = ("exec", "--as", "helper", box.name, "--", "/usr/bin/python3", "-I", "-c", _ASK)
    ran = world.stage.hostctl(*words, "/run/gitmoat/cred.sock", request(world))
    answer: str = json.loads(ran.expect_success("asking from the gate"))
    return answer


def refused(world: Machine, uid: int, code: str) -> list[dict[str, Any]]:
    """The broker's records of a peer that a sidecar has refused."""
    lines = world.stage.paths.broker_audit.read_text().splitlines()
    return [
        entry
        for entry in map(json.loads, lines)
        if (entry.get("peer_uid"), entry.get("code")) == (uid, code)
    ]


def test_the_helpers_uid_in_another_cgroup_is_refused_and_recorded(world: Machine) -> None:
    with world.box() as box, world.box(repo=None) as other:
        assert "password=" in ask_as_helper(world, box)
        mine, theirs = uids(world, box)["helper"], uids(world, other)["helper"]
        assert ask_from_outside(world, box, mine) == ""
        eventually(lambda: refused(world, mine, "H102"), "the record")
        assert ask_from_outside(world, box, theirs) == ""
        eventually(lambda: refused(world, theirs, "H101"), "the record")
        assert "password=" in ask_as_helper(world, box)


def test_the_sockets_of_another_sandbox_are_not_to_be_seen(world: Machine) -> None:
    with world.box(repo=None) as box, world.box(repo=None) as other:
        identifier = str(world.inspect(other.name)["sandbox"])
        found = box.sh("find / -type s 2>/dev/null; true", as_helper=True).out.split()
        assert found == ["/run/gitmoat/cred.sock"]
        listing = box.sh("cat /proc/self/mountinfo /proc/mounts", as_helper=True).out
        assert identifier not in listing.replace(str(world.stage.root), "")


def test_a_range_that_belongs_to_somebody_stops_hostd_with_a_reason(
    world: Machine, tmp_path: Path
) -> None:
    """In a mount namespace of its own, where another /etc gives the range away."""
    for name in ("passwd", "group"):
        shutil.copy(f"/etc/{name}", tmp_path)
    (tmp_path / "subuid").write_text("somebody:1999990000:65536\n")
    hostd = shlex.join([sys.executable, "-P", "-m", "hostd", "--root", str(world.stage.root)])
    enter = ["unshare", "--mount", "sh", "-c", f"mount --bind {tmp_path} /etc && exec {hostd}"]
    world.kill("hostd")
    ran = subprocess.run(enter, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ran.returncode != 0
    assert "overlaps with what /etc/subuid gives to somebody" in ran.stderr

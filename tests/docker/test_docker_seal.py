"""What a container of ours is: by Docker's word, by the kernel's, and seen from inside."""

from __future__ import annotations

import json
import os
import uuid
from contextlib import suppress
from pathlib import Path

import pytest

from tests.docker.engines import TestEngine, image
from tests.stage.boxes import Box, MakeBox
from tests.stage.gitmoat import Gitmoat
from tests.stage.kernel_view import namespace
from tests.waiting import PATIENCE, eventually


@pytest.fixture(scope="module", params=["debian", "hostile"])
def box(request: pytest.FixtureRequest, make_shared_box: MakeBox) -> Box:
    return make_shared_box("--agent", "--push", "agent/**", "--image", image(request.param))


def _facts(text: str) -> dict[str, str]:
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


@pytest.mark.parametrize("who", ["the first process", "a command"])
def test_every_process_has_the_sandboxes_uid_and_no_privilege(box: Box, who: str) -> None:
    about = box.inspect()
    uid = str(about["uids"]["untrusted"])
    if who == "a command":
        found = _facts(box.run("cat", "/proc/self/status").out)
    else:
        found = _facts(Path(f"/proc/{about['pid']}/status").read_text())
    assert found["Uid"].split() == found["Gid"].split() == [uid] * 4
    assert set(found["Groups"].split()) <= {uid}
    for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(found[kind], 16) == 0, kind
    assert found["NoNewPrivs"] == "1"
    assert found["Seccomp"] == "2"


def test_the_first_process_is_our_pause_and_no_program_of_the_image(box: Box) -> None:
    pid = box.inspect()["pid"]
    assert Path(f"/proc/{pid}/cmdline").read_bytes() == b"/run/gitmoat/pause\0"
    assert not box.path("/workspace/evil-ran").exists(), "nor did its health check run"


def test_the_network_is_the_holders_and_has_nothing_but_lo(box: Box, engine: TestEngine) -> None:
    about = box.inspect()
    holder = engine.inspect(f"gitmoat-{about['sandbox']}-net")
    assert namespace(holder["State"]["Pid"], "net") == namespace(about["pid"], "net")
    assert os.stat(f"/proc/{about['pid']}/ns/net").st_ino == about["netns"]
    names = box.run("ls", "/sys/class/net").out.split()
    assert names in (["lo"], []), names


def test_only_a_few_places_can_be_written(box: Box) -> None:
    script = (
        "for d in / /bin /etc /usr /var /dev /run /run/gitmoat /evil /root /proc/sys/kernel /sys;"
        " do touch $d/probe 2>/dev/null && echo $d; done;"
        " for d in /tmp /var/tmp /workspace /home/sandbox /dev/shm;"
        " do touch $d/probe || echo not $d; done"
    )
    assert box.run("sh", "-c", script).out == ""


def test_commands_are_in_the_containers_cgroups(box: Box) -> None:
    container = box.inspect()["container"]
    seconds = f"600.{uuid.uuid4().int}"  # nobody else's
    wanted = f"sleep\0{seconds}\0".encode()
    process = box.begin("sleep", seconds)
    try:
        eventually(lambda: _groups_of(wanted), "the command")
        groups = _groups_of(wanted)
        assert groups
        assert all(line.endswith(container) for line in groups), groups
    finally:
        process.kill()
        process.communicate()


def _groups_of(command: bytes) -> list[str]:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if Path("/proc", pid, "cmdline").read_bytes() == command:
                return Path("/proc", pid, "cgroup").read_text().splitlines()
    return []


def test_verify_finds_every_control_enforced(box: Box) -> None:
    ran = box.stage.hostctl("--json", "verify", box.name, timeout=PATIENCE)
    report = json.loads(ran.out)
    wrong = [probe for probe in report["probes"] if not probe["ok"]]
    assert (wrong, ran.code) == ([], 0)
    assert report["total"] > 20


def test_docker_exec_as_root_has_no_privilege_either(box: Box, engine: TestEngine) -> None:
    container = box.inspect()["container"]
    found = _facts(engine.docker("exec", "-u", "0", container, "cat", "/proc/self/status"))
    assert int(found["CapBnd"], 16) == int(found["CapEff"], 16) == 0
    assert (found["NoNewPrivs"], found["Seccomp"]) == ("1", "2")


def test_a_peer_with_the_helpers_uid_in_another_container_gets_no_token(
    box: Box, engine: TestEngine, stage: Gitmoat
) -> None:
    """The same uid and the same socket, mounted elsewhere: the cgroup is not the gate's."""
    about = box.inspect()
    helper = about["uids"]["helper"]
    directory = stage.paths.sandboxes_run / about["sandbox"]
    host = stage.upstream.url.removeprefix("https://")
    asking = (
        "git -c credential.helper= -c 'credential.helper=cache --socket /s/cred.sock'"
        " -c credential.useHttpPath=true credential fill"
    )
    question = f"protocol=http\nhost=127.0.0.1:418\npath={host}/acme/app.git\n\n"
    done = engine.try_docker(
        *("run", "--rm", "-i", "--network=none", "-u", f"{helper}:{helper}", "-e", "HOME=/tmp"),
        *("-e", "GIT_TERMINAL_PROMPT=0", "-v", f"{directory}:/s:ro", "--entrypoint=/bin/sh"),
        *(image("debian"), "-c", asking),
        stdin=question.encode(),
    )
    assert done.returncode != 0
    assert b"password=" not in done.stdout

    def recorded() -> bool:
        audit = stage.hostctl("--json", "audit", "query", "--denied", "-n", "1000").out
        return f'"peer_uid":{helper}' in audit.replace(" ", "")

    eventually(recorded, "a record of the peer that was refused")


def test_the_audit_knows_which_container_its_sessions_records_are_of(
    stage: Gitmoat, box: Box, engine: TestEngine
) -> None:
    about = box.inspect()
    found = engine.inspect(f"gitmoat-{about['sandbox']}")
    text = stage.hostctl("--json", "audit", "query", "--sandbox", box.name, "-n", "200").out
    records = [json.loads(line) for line in text.splitlines()]
    (activated,) = [each for each in records if each["event"] == "session.activated"]
    assert activated["session"] == about["session"]["id"]
    assert activated["container"] == found["Id"]
    assert activated["pid"] == found["State"]["Pid"] == about["pid"]
    assert activated["started"] == found["State"]["StartedAt"]
    assert (activated["netns"], activated["epoch"]) == (about["netns"], about["epoch"])

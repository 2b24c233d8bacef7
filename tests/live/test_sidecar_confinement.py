"""The sidecar seen from outside: what the kernel lets it be, hold and reach."""

from __future__ import annotations

import os
import signal
from collections import Counter

from hostctl.control_client import ask
from hostctl.setup.defaults import broker_address
from tests.stage.boxes import Box, MakeBox
from tests.stage.gitmoat import Gitmoat
from tests.stage.kernel_view import (
    descriptors,
    inet_sockets,
    limits,
    namespace,
    status,
    unix_sockets,
)
from tests.waiting import eventually

NO_CAPABILITY = "0000000000000000"


def test_it_runs_under_its_own_uid_without_any_privilege(agent: Box) -> None:
    about = agent.inspect()
    uid = about["uids"]["sidecar"]
    found = status(about["sidecar"]["pid"])
    assert found["Uid"].split() == [str(uid)] * 4
    assert found["Gid"].split() == [str(uid)] * 4
    assert found["Groups"].strip() == ""
    for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert found[kind] == NO_CAPABILITY, kind
    assert (found["NoNewPrivs"], found["Seccomp"], found["Threads"]) == ("1", "2", "1")


def test_uids_of_two_sandboxes_are_six_different_ones(agent: Box, split: Box) -> None:
    uids = [*agent.inspect()["uids"].values(), *split.inspect()["uids"].values()]
    assert len(set(uids)) == 6
    assert min(uids) >= 2_000_000_000


def test_its_memory_is_closed_to_everybody_but_root(agent: Box) -> None:
    """Not dumpable: the kernel gives its /proc files to root, so no other uid may trace it."""
    pid = agent.sidecar
    assert os.stat(f"/proc/{pid}/mem").st_uid == 0
    assert limits(pid)["Max core file size"] == "0"


def test_its_root_is_an_empty_directory_that_it_cannot_write(agent: Box, stage: Gitmoat) -> None:
    pid = agent.sidecar
    assert os.readlink(f"/proc/{pid}/root") == str(stage.paths.run / "empty")
    assert os.readlink(f"/proc/{pid}/cwd") == str(stage.paths.run / "empty")
    assert os.listdir(f"/proc/{pid}/root/") == []
    found = os.stat(f"/proc/{pid}/root/")
    assert (found.st_uid, found.st_mode & 0o777) == (0, 0o555)


def test_it_lives_in_the_sandboxs_network_namespace(agent: Box) -> None:
    about = agent.inspect()
    own = namespace(about["sidecar"]["pid"], "net")
    assert own == namespace(about["pid"], "net") == about["netns"]
    assert own != namespace("self", "net")


def test_it_can_neither_start_processes_nor_open_many_files(agent: Box) -> None:
    found = limits(agent.sidecar)
    assert found["Max processes"] == "1"
    assert int(found["Max open files"]) <= 1024


def test_it_holds_its_listeners_its_link_the_broker_and_nothing_else(
    agent: Box, stage: Gitmoat
) -> None:
    agent.run("git", "ls-remote", stage.url("acme/app")).expect_success("ls-remote")
    expected = {
        "epoll": 1,
        "pipe": 2,  # both ends of the reactor's own waker
        "log": 2,
        "listener 127.0.0.1:418": 1,
        "listener 127.0.0.1:419": 1,
        "listener 127.0.0.1:480": 1,
        "listener 127.0.0.1:53": 2,  # TCP and UDP
        "listener 0.0.0.0:80": 1,  # of a network that has no interface but lo
        "listener 0.0.0.0:443": 1,
        "cred.sock": 1,
        "control socket": 2,  # the listener, and hostd's connection
    }
    kinds: Counter[str] = Counter()

    def nothing_else() -> bool:
        """Once the client's own connection is closed on this side, too."""
        kinds.clear()
        kinds.update(_kinds(agent, stage))
        return 1 <= kinds.pop("tcp to the broker", 0) <= 16 and kinds == expected

    try:
        eventually(nothing_else, "its own and nothing else")
    except AssertionError:
        assert kinds == expected
        raise


def _kinds(box: Box, stage: Gitmoat) -> list[str]:
    about = box.inspect()
    pid, name = about["sidecar"]["pid"], about["sandbox"]
    inside, outside = inet_sockets(pid), inet_sockets()
    paths = unix_sockets(pid) | unix_sockets()
    run = stage.paths.run
    known = {
        str(run / "sb" / name / "cred.sock"): "cred.sock",
        str(run / "ctl" / f"{name}.sock"): "control socket",
        "anon_inode:[eventpoll]": "epoll",
        str(stage.paths.log_dir / f"sidecar-{name}.log"): "log",
    }
    found = []
    for target in descriptors(pid).values():
        inode = int(target[8:-1]) if target.startswith("socket:[") else -1  # 0 is nobody's
        if inode in inside and inside[inode].listening:
            found.append("listener {}:{}".format(*inside[inode].local))
        elif inode in outside and _is_broker(stage, outside[inode].remote):
            found.append("tcp to the broker")
        elif target.startswith("pipe:["):
            found.append("pipe")
        else:
            found.append(known.get(paths.get(inode, target), f"unexpected: {target}"))
    return found


def _is_broker(stage: Gitmoat, remote: tuple[str, int]) -> bool:
    return "{}:{}".format(*remote) == broker_address(stage.paths)


def test_its_waker_is_one_pipe_that_nobody_else_holds(agent: Box) -> None:
    pid = agent.sidecar
    (pipe,) = {target for target in descriptors(pid).values() if target.startswith("pipe:[")}
    holders = set()
    for other in filter(str.isdigit, os.listdir("/proc")):
        try:
            if pipe in descriptors(int(other)).values():
                holders.add(int(other))
        except OSError:
            continue
    assert holders == {pid}


def test_what_it_tries_itself_is_denied(agent: Box, stage: Gitmoat) -> None:
    answer = ask(stage.paths.hostd_socket, {"op": "selftest", "sandbox": agent.name})
    results = answer["results"]
    assert isinstance(results, list)
    assert {result["name"] for result in results} >= {
        "socket-inet",
        "socket-unix",
        "open-file",
        "create-file",
        "fork",
        "exec",
        "setuid",
    }
    assert [result["name"] for result in results if result["denied"] is not True] == []


def test_a_replaced_sidecar_is_confined_alike(make_box: MakeBox, stage: Gitmoat) -> None:
    box = make_box("--agent")
    links = Counter({"tcp to the broker": 16})
    before = Counter(_kinds(box, stage)) - links
    old = box.sidecar
    os.kill(old, signal.SIGKILL)
    box.run("git", "ls-remote", stage.url("acme/app")).expect_success("ls-remote")
    eventually(lambda: box.inspect()["sidecar"]["pid"] not in (None, old), "a new sidecar")
    eventually(lambda: Counter(_kinds(box, stage)) - links == before, "the same descriptors")
    test_it_runs_under_its_own_uid_without_any_privilege(box)

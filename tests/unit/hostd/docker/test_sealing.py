"""Every way in which a container can be unsealed, and what is said of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve

from gitmoat.confine.docker_profile import docker_profile
from gitmoat.confine.profiles import SANDBOX
from hostd.docker.sealing import (
    ATTACHED,
    RULES,
    Mount,
    Seal,
    companions,
    container_of,
    filter_digest,
    filter_of,
    strange_mounts,
    unsealed,
    wrong_in_kernel,
)
from hostd.sandbox.sandbox import Container

HOLDER = "a" * 64
OURS = "b" * 64
UID = 2000000005
PROFILE = docker_profile(SANDBOX, "x86_64")
SEAL = Seal(f"container:{HOLDER}", UID, filter_digest(PROFILE))
NO_NEW, FILTER = "no-new-privileges", f"seccomp={json.dumps(PROFILE)}"


def sealed(**changes: Any) -> dict[str, Any]:
    host = {
        "Privileged": False,
        "CapAdd": None,
        "CapDrop": ["ALL"],
        "SecurityOpt": [NO_NEW, FILTER],
        "NetworkMode": f"container:{HOLDER}",
        "PidMode": "",
        "IpcMode": "private",
        "UsernsMode": "",
        "UTSMode": "",
        "ReadonlyRootfs": True,
        "Devices": [],
        "DeviceRequests": None,
        "DeviceCgroupRules": None,
        "VolumesFrom": None,
        "GroupAdd": None,
        "MaskedPaths": ["/proc/kcore"],
        "ReadonlyPaths": ["/proc/sys"],
        "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
        "Memory": 1 << 30,
        "PidsLimit": 100,
        "Runtime": "runc",
    }
    assert set(changes) <= set(host)
    return {"HostConfig": host | changes, "Config": {"User": f"{UID}:{UID}"}}


def test_a_sealed_container_is_sealed() -> None:
    assert unsealed(sealed(), SEAL) == []


def test_a_filter_that_an_earlier_version_admitted_stays_and_none_is_none() -> None:
    earlier = {"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{"names": ["read"]}]}
    found = sealed(SecurityOpt=[NO_NEW, f"seccomp={json.dumps(earlier)}"])
    for admitted in (None, filter_of(found["HostConfig"])):
        assert unsealed(found, evolve(SEAL, filter=admitted)) == []
    assert [each.reason for each in unsealed(found, SEAL)] == ["its system-call filter is not ours"]
    for given in ("seccomp=unconfined", "seccomp=1", NO_NEW):
        changed = sealed(SecurityOpt=[NO_NEW, given])
        wrong = unsealed(changed, evolve(SEAL, filter=None))
        assert [each.reason for each in wrong] == ["its system-call filter is not ours"]


def test_a_record_of_an_earlier_version_has_no_filter() -> None:
    noted = Container("c", 1, "then", filter="abc").to_json()
    assert Container.from_json(noted) == Container("c", 1, "then", filter="abc")
    del noted["filter"]
    assert Container.from_json(noted) == Container("c", 1, "then")


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"OomScoreAdj": 500}, 0),
        ({"OomScoreAdj": 0}, 1),
        ({"OomScoreAdj": -1000}, 1),
        ({"OomScoreAdj": 500, "OomKillDisable": True}, 1),
    ],
)
def test_who_is_attached_ends_before_the_hosts_daemons_where_memory_is_short(
    change: dict[str, Any], wrong: int
) -> None:
    found = sealed()
    found["HostConfig"] |= {"CgroupnsMode": "private"} | change
    reasons = ["it is not ended first where memory is short"]
    assert [each.reason for each in unsealed(found, SEAL, ATTACHED)] == reasons * wrong


UNSEALED: list[tuple[dict[str, Any], str]] = [
    ({"Privileged": True}, "it is privileged"),
    ({"CapAdd": ["NET_ADMIN"]}, "it has added capabilities"),
    ({"CapDrop": None}, "it has capabilities"),
    ({"CapDrop": ["NET_RAW"]}, "it has capabilities"),
    ({"SecurityOpt": [FILTER]}, "it may gain privileges"),
    ({"SecurityOpt": [f"{NO_NEW}:false", FILTER]}, "it may gain privileges"),
    ({"SecurityOpt": [NO_NEW]}, "its system-call filter is not ours"),
    ({"SecurityOpt": [NO_NEW, "seccomp=unconfined"]}, "its system-call filter is not ours"),
    ({"SecurityOpt": [NO_NEW, 'seccomp={"defaultAction":"SCMP_ACT_ALLOW"}']},
     "its system-call filter is not ours"),
    ({"SecurityOpt": [NO_NEW, FILTER, "apparmor=unconfined"]},
     "it has a --security-opt that we do not know"),
    ({"SecurityOpt": [NO_NEW, FILTER, "label=disable"]},
     "it has a --security-opt that we do not know"),
    ({"SecurityOpt": [NO_NEW, FILTER, "?"]}, "it has a --security-opt that we do not know"),
    ({"NetworkMode": "host"}, "its network is not the one that was prepared"),
    ({"NetworkMode": "bridge"}, "its network is not the one that was prepared"),
    ({"NetworkMode": f"container:{OURS}"}, "its network is not the one that was prepared"),
    ({"PidMode": "host"}, "it sees processes that are not its own"),
    ({"PidMode": f"container:{HOLDER}"}, "it sees processes that are not its own"),
    ({"IpcMode": "host"}, "it shares memory with others"),
    ({"IpcMode": "shareable"}, "it shares memory with others"),
    ({"UsernsMode": "host"}, "its users are not mapped as the engine's are"),
    ({"UTSMode": "host"}, "it has the host's name"),
    ({"ReadonlyRootfs": False}, "its root can be written"),
    ({"Devices": [{"PathOnHost": "/dev/kvm"}]}, "it has devices"),
    ({"DeviceRequests": [{"Driver": "nvidia"}]}, "it has devices"),
    ({"DeviceCgroupRules": ["c 1:1 rwm"]}, "it has devices"),
    ({"VolumesFrom": ["other"]}, "it has volumes of another container"),
    ({"GroupAdd": ["docker"]}, "it has further groups"),
    ({"MaskedPaths": []}, "paths of /proc and /sys are not masked"),
    ({"ReadonlyPaths": None}, "paths of /proc and /sys are not masked"),
    ({"RestartPolicy": {"Name": "always"}}, "Docker would restart it without us"),
    ({"RestartPolicy": {"Name": "on-failure"}}, "Docker would restart it without us"),
    ({"Memory": 0}, "it has no limits"),
    ({"PidsLimit": None}, "it has no limits"),
    ({"Runtime": "other"}, "its runtime is not one we know"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "reason"), UNSEALED, ids=[str(row[0])[:60] for row in UNSEALED])
def test_each_change_is_refused_with_its_own_reason(change: dict[str, Any], reason: str) -> None:
    found = unsealed(sealed(**change), SEAL)
    assert [each.reason for each in found] == [reason]
    assert found[0].option


def test_every_row_of_the_table_is_tried_here() -> None:
    assert {rule.reason for rule in RULES} == {reason for _, reason in UNSEALED}


@pytest.mark.parametrize("user", ["", "root", "0:0", str(UID), f"{UID}:0", "sandbox"])
def test_the_user_is_given_as_numbers_both_of_them(user: str) -> None:
    found = sealed() | {"Config": {"User": user}}
    assert [each.reason for each in unsealed(found, SEAL)] == ["its uid is not the sandbox's own"]


@pytest.mark.parametrize("option", [f"{NO_NEW}:true", f"{NO_NEW}=true", NO_NEW])
def test_the_spellings_of_docker_are_understood(option: str) -> None:
    filtered = "seccomp:" + json.dumps(PROFILE, indent=2)
    assert unsealed(sealed(SecurityOpt=[option, filtered]), SEAL) == []


def test_everything_that_is_wrong_is_said_at_once() -> None:
    found = unsealed(sealed(Privileged=True, PidMode="host", ReadonlyRootfs=False), SEAL)
    assert len(found) == 3


STATUS = {
    "Uid": f"{UID}\t{UID}\t{UID}\t{UID}",
    "Gid": f"{UID}\t{UID}\t{UID}\t{UID}",
    "Groups": f"{UID} ",
    **dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"), "0000000000000000"),
    "NoNewPrivs": "1",
    "Seccomp": "2",
}


def text(**changes: str) -> str:
    return "".join(f"{name}:\t{value}\n" for name, value in (STATUS | changes).items())


def test_the_kernels_word_is_asked_too() -> None:
    assert wrong_in_kernel(text(), UID) == []
    assert wrong_in_kernel(text(Groups=""), UID) == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"Uid": f"{UID}\t0\t{UID}\t{UID}"}, f"its uid or gid is not {UID}"),
        ({"Gid": "0\t0\t0\t0"}, f"its uid or gid is not {UID}"),
        ({"Groups": f"{UID} 999"}, "it is in further groups"),
        ({"CapBnd": "00000000a80425fb"}, "it has capabilities"),
        ({"CapEff": "0000000000001000"}, "it has capabilities"),
        ({"NoNewPrivs": "0"}, "it may gain privileges"),
        ({"Seccomp": "0"}, "no system-call filter is in force"),
    ],
)
def test_what_the_kernel_says_otherwise_is_refused(change: dict[str, str], reason: str) -> None:
    assert wrong_in_kernel(text(**change), UID) == [reason]


def test_the_name_of_a_process_is_not_a_field() -> None:
    """The kernel escapes a newline in it, and no other end of a line (proc_pid_status(5))."""
    unfiltered = text(Seccomp="").replace("Seccomp:\t\n", "")
    assert wrong_in_kernel(f"Name:\tx\u2028Seccomp:\t2\n{unfiltered}", UID) == [
        "no system-call filter is in force"
    ]


def test_a_status_that_says_nothing_is_all_wrong() -> None:
    assert len(wrong_in_kernel("", UID)) == 5


@pytest.mark.parametrize(
    ("groups", "container"),
    [
        (f"9:name=systemd:/docker/{OURS}\n0::/docker/{OURS}\n", OURS),
        (f"0::/system.slice/docker-{OURS}.scope\n", OURS),
        (f"4:memory:/docker/{OURS}\n0::/\n", OURS),
        (f"0::/docker/{OURS}\n1:pids:/docker/{HOLDER}\n", None),
        ("0::/user.slice\n", None),
        (f"0::/docker/{OURS}/{'c' * 63}\n", None),
        ("", None),
    ],
)
def test_the_container_of_a_process_is_read_from_its_cgroups(
    groups: str, container: str | None
) -> None:
    assert container_of(groups) == container


def test_mounts_that_nobody_asked_for_are_named() -> None:
    ours = Mount("/var/lib/x/workspace", "/workspace", False)
    listed = [
        {"Type": "bind", "Source": ours.source, "Destination": ours.target, "RW": True},
        {"Type": "bind", "Source": "/", "Destination": "/host", "RW": False},
        {"Type": "tmpfs", "Destination": "/tmp"},
    ]
    assert strange_mounts({"Mounts": listed}, [ours]) == ["/host"]
    read_only = Mount(ours.source, ours.target, True)
    assert strange_mounts({"Mounts": listed[:1]}, [read_only]) == ["/workspace"]


def test_others_in_the_network_are_named() -> None:
    network = {"NetworkMode": f"container:{HOLDER}"}
    listed = [
        {"Id": OURS, "Names": ["/ours"], "State": "running", "HostConfig": network},
        {"Id": "c", "Names": ["/guest"], "State": "running", "HostConfig": network},
        {"Id": "d", "Names": ["/gone"], "State": "exited", "HostConfig": network},
        {"Id": "e", "Names": ["/far"], "State": "running", "HostConfig": {"NetworkMode": "none"}},
    ]
    assert companions(listed, HOLDER, OURS) == ["guest"]

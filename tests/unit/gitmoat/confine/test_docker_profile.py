"""The Docker form allows nothing that the profile itself refuses, and works for everyday calls."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitmoat.confine import profiles
from gitmoat.confine.docker_profile import Inexpressible, docker_profile
from gitmoat.confine.seccomp import Allow, Profile

PROFILE = docker_profile(profiles.SANDBOX, "x86_64")


def allows(call: str, *arguments: int) -> bool:
    """As libseccomp reads it: any rule that matches allows; otherwise the default."""
    given = (*arguments, *([0] * 6))[:6]

    def holds(condition: dict[str, Any]) -> bool:
        value = given[condition["index"]]
        outcomes: dict[str, bool] = {
            "SCMP_CMP_EQ": value == condition["value"],
            "SCMP_CMP_NE": value != condition["value"],
            "SCMP_CMP_MASKED_EQ": value & condition["value"] == condition["valueTwo"],
        }
        return outcomes[condition["op"]]

    return any(
        call in entry["names"] and all(map(holds, entry["args"]))
        for entry in PROFILE["syscalls"]
        if entry["action"] == "SCMP_ACT_ALLOW"
    )


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("read", ()), ("execve", ()), ("openat", ()), ("socket", (2, 1, 0)), ("socket", (16, 3, 0)),
        ("chmod", (0, 0o755)), ("openat", (0, 0, 0, 0o7777)), ("openat", (0, 0, 0o101, 0o644)),
        ("clone", (17,)), ("ioctl", (0, 0x5401)), ("personality", (0xFFFFFFFF,)), ("futex", ()),
    ],
)  # fmt: skip
def test_everyday_calls_are_allowed(call: str, arguments: tuple[int, ...]) -> None:
    assert allows(call, *arguments)


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("socket", (40, 1, 0)), ("socket", (17, 3, 0)), ("socket", (16, 3, 12)),
        ("socket", (16, 3, 16)), ("ioctl", (0, 0x5423)), ("ioctl", (0, 1 << 32 | 0x5412)),
        ("ioctl", (0, 1 << 32 | 0x5423)),
        ("clone", (0x10000000 | 17,)), ("clone3", ()), ("unshare", ()), ("setns", ()),
        ("io_uring_setup", ()), ("bpf", ()), ("keyctl", ()), ("mount", ()), ("ioctl", (0, 0x5412)),
        ("personality", (0x40000,)), ("process_vm_readv", ()), ("pidfd_getfd", ()),
        ("a_call_of_next_year", ()), ("chmod", (0, 0o4755)), ("openat", (0, 0, 0o101, 0o6755)),
        ("openat2", ()),
    ],
)  # fmt: skip
def test_what_the_profile_refuses_is_not_allowed(call: str, arguments: tuple[int, ...]) -> None:
    assert not allows(call, *arguments)


@given(st.integers(0, 2**64 - 1))
def test_a_command_is_refused_by_its_low_half_and_every_other_is_allowed(command: int) -> None:
    assert allows("ioctl", 0, command) == (command & 0xFFFFFFFF not in (0x5412, 0x5423))


def test_what_no_rule_names_is_not_there_for_an_engine_without_a_default_errno_either() -> None:
    (refusing,) = [e for e in PROFILE["syscalls"] if e["action"] == "SCMP_ACT_ERRNO"]
    assert refusing["errnoRet"] == PROFILE["defaultErrnoRet"] == 38
    assert {"clone3", "openat2", "io_uring_setup", "mount"} <= set(refusing["names"])
    others = {name for entry in PROFILE["syscalls"][:-1] for name in entry["names"]}
    assert not others & set(refusing["names"])


def test_one_argument_is_compared_once_per_rule() -> None:
    for entry in PROFILE["syscalls"]:
        indexes = [condition["index"] for condition in entry["args"]]
        assert len(indexes) == len(set(indexes))


def test_a_profile_that_allows_by_default_has_no_docker_form() -> None:
    with pytest.raises(Inexpressible):
        docker_profile(Profile("open", (), Allow()), "x86_64")

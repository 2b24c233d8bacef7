"""The filters, run by a small BPF interpreter: every promise is a call and its answer."""

from __future__ import annotations

import errno
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitmoat.confine import profiles
from gitmoat.confine.seccomp import (
    Allow,
    Argument,
    Compare,
    Fail,
    Profile,
    Rule,
    compile_profile,
)
from gitmoat.confine.syscalls import AUDIT_ARCH, NUMBERS

ALLOW = 0x7FFF0000
KILL = 0x80000000
MACHINE = "x86_64"


def run(
    program: bytes, number: int, arguments: tuple[int, ...] = (), arch: int | None = None
) -> int:
    """What the kernel's interpreter would return for one call."""
    arguments = (*arguments, *([0] * 6))[:6]
    data = struct.pack("=iIQ6Q", number, arch or AUDIT_ARCH[MACHINE], 0, *arguments)
    code = [struct.unpack_from("=HBBI", program, offset) for offset in range(0, len(program), 8)]
    accumulator: int = 0
    position: int = 0
    while True:
        operation, if_true, if_false, k = map(int, code[position])
        position += 1
        if operation == 0x20:
            accumulator = struct.unpack_from("=I", data, k)[0]
        elif operation == 0x06:
            return k
        else:
            holds = {0x15: accumulator == k, 0x35: accumulator >= k, 0x45: bool(accumulator & k)}
            position += if_true if holds[operation] else if_false


def denied(number: int) -> int:
    return 0x00050000 | number


def sandbox(call: str, *arguments: int) -> int:
    return run(compile_profile(profiles.SANDBOX, MACHINE), NUMBERS[MACHINE][call], arguments)


def sidecar(call: str, *arguments: int) -> int:
    return run(compile_profile(profiles.SIDECAR, MACHINE), NUMBERS[MACHINE][call], arguments)


@pytest.mark.parametrize("profile", [profiles.SIDECAR, profiles.SANDBOX], ids=lambda p: p.name)
def test_every_call_a_profile_names_exists(profile: Profile) -> None:
    known = set().union(*NUMBERS.values())
    assert {call for rule in profile.rules for call in rule.calls} <= known


@pytest.mark.parametrize("profile", [profiles.SIDECAR, profiles.SANDBOX], ids=lambda p: p.name)
@pytest.mark.parametrize("machine", NUMBERS)
def test_another_architecture_is_killed(profile: Profile, machine: str) -> None:
    program = compile_profile(profile, machine)
    assert run(program, NUMBERS[machine]["read"], arch=0x40000003) == KILL


def test_the_x32_spelling_of_a_call_is_not_a_way_around() -> None:
    program = compile_profile(profiles.SANDBOX, MACHINE)
    assert run(program, NUMBERS[MACHINE]["io_uring_setup"] | 0x40000000) == denied(errno.ENOSYS)
    assert run(program, NUMBERS[MACHINE]["read"] | 0x40000000) == denied(errno.ENOSYS)


@pytest.mark.parametrize("family", [1, 2, 10])
def test_sandbox_may_use_ordinary_sockets(family: int) -> None:
    assert sandbox("socket", family, 1, 0) == ALLOW


@pytest.mark.parametrize("family", [3, 17, 38, 40, 44, 45])
def test_sandbox_has_no_other_socket_family(family: int) -> None:
    assert sandbox("socket", family, 1, 0) == denied(errno.EAFNOSUPPORT)
    assert sandbox("socketpair", family, 1, 0) == denied(errno.EAFNOSUPPORT)


def test_sandbox_may_ask_for_routes_but_not_speak_to_netfilter() -> None:
    assert sandbox("socket", 16, 3, 0) == ALLOW
    assert sandbox("socket", 16, 3, 12) == denied(errno.EAFNOSUPPORT)


def test_high_bits_of_the_family_are_not_a_way_around() -> None:
    assert sandbox("socket", 40 | 1 << 32, 1, 0) == denied(errno.EAFNOSUPPORT)


@pytest.mark.parametrize("flag", [0x10000000, 0x40000000, 0x00020000, 0x20000000])
def test_sandbox_makes_no_namespace(flag: int) -> None:
    assert sandbox("clone", flag | 17) == denied(errno.EPERM)
    assert sandbox("clone", 17) == ALLOW
    assert sandbox("clone3") == denied(errno.ENOSYS)
    assert sandbox("unshare", flag) == denied(errno.ENOSYS)


@pytest.mark.parametrize("bits", [0o4755, 0o2755, 0o6000])
def test_sandbox_makes_nothing_setuid(bits: int) -> None:
    refused = denied(errno.EPERM)
    assert sandbox("chmod", 0, bits) == refused
    assert sandbox("fchmod", 3, bits) == refused
    assert sandbox("fchmodat", 3, 0, bits) == refused
    assert sandbox("fchmodat2", 3, 0, bits) == refused
    assert sandbox("mknod", 0, 0o100000 | bits) == refused
    assert sandbox("creat", 0, bits) == refused
    assert sandbox("open", 0, 0o101, bits) == refused
    assert sandbox("openat", 3, 0, 0o20000002, bits) == refused
    assert sandbox("openat2", 3) == denied(errno.ENOSYS)


def test_an_open_that_creates_nothing_has_no_mode_to_judge() -> None:
    assert sandbox("openat", 3, 0, 0, 0o7777) == ALLOW
    assert sandbox("openat", 3, 0, 0o101, 0o644) == ALLOW
    assert sandbox("chmod", 0, 0o1777) == ALLOW


def test_sandbox_types_nothing_into_a_terminal() -> None:
    assert sandbox("ioctl", 0, 0x5412) == denied(errno.EPERM)
    assert sandbox("ioctl", 0, 0x5401) == ALLOW


@pytest.mark.parametrize(
    "call",
    ["socket", "socketpair", "connect", "bind", "listen", "clone", "fork", "ptrace", "mount"],
)
def test_sidecar_has_no_such_call(call: str) -> None:
    assert sidecar(call, 1) == denied(errno.EPERM)


def test_sidecar_serves_what_it_was_given() -> None:
    for call in ("accept4", "recvmsg", "sendto", "epoll_ctl", "close"):
        assert sidecar(call) == ALLOW


def test_sidecar_has_only_the_named_ioctls() -> None:
    assert sidecar("ioctl", 5, 0x5421) == ALLOW
    assert sidecar("ioctl", 5, 0x5412) == denied(errno.EPERM)


values = st.integers(0, 2**32 - 1)
arguments = st.builds(
    Argument,
    st.integers(0, 5),
    st.sampled_from(list(Compare)),
    st.lists(values, min_size=1, max_size=4).map(tuple),
)
rules = st.lists(
    st.builds(
        Rule,
        st.lists(st.sampled_from(["read", "write", "socket", "ioctl"]), min_size=1).map(tuple),
        st.one_of(st.just(Allow()), st.builds(Fail, st.integers(1, 100))),
        st.lists(arguments, max_size=3).map(tuple),
    ),
    max_size=5,
)


def expected(profile: Profile, call: str, given_arguments: tuple[int, ...]) -> int:
    """The obvious reading of a profile: the first rule that matches decides."""

    def holds(argument: Argument) -> bool:
        value = given_arguments[argument.index] & 0xFFFFFFFF
        if argument.test is Compare.EQUAL:
            return value in argument.values
        if argument.test is Compare.NONE_OF:
            return value not in argument.values
        return any(value & wanted for wanted in argument.values)

    for rule in profile.rules:
        if call in rule.calls and all(map(holds, rule.when)):
            return ALLOW if isinstance(rule.action, Allow) else denied(rule.action.number)
    return ALLOW if isinstance(profile.default, Allow) else denied(profile.default.number)


@given(
    rules,
    st.sampled_from(["read", "write", "socket", "ioctl", "close"]),
    st.tuples(*[st.one_of(st.integers(0, 3), values)] * 6),
)
def test_the_program_means_what_the_profile_says(
    some_rules: list[Rule], call: str, given_arguments: tuple[int, ...]
) -> None:
    profile = Profile("any", tuple(some_rules), Fail(errno.EPERM))
    program = compile_profile(profile, MACHINE)
    got = run(program, NUMBERS[MACHINE][call], given_arguments)
    assert got == expected(profile, call, given_arguments)

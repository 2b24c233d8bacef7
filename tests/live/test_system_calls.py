"""System calls of a command and of the gate's helper that must not work, made without libc's help.

The filter is data (`gitmoat/confine/profiles.py`) and its compiled form is tested by interpreting
it; here the kernel itself answers, from inside a sandbox (threat model 5, 18, 19, 20, 23, 37).
"""

from __future__ import annotations

import platform
from typing import Any

import pytest

from tests.stage.boxes import Box

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="numbers are those of x86-64"
)

X32 = 0x40000000
NEW_USER, NEW_NET, SIGCHLD = 0x10000000, 0x40000000, 17
# Name → number and arguments. None of them may come back with anything but its error.
NOT_THERE: dict[str, tuple[int, ...]] = {
    "io_uring_setup": (425, 1, 0),
    "io_uring_enter": (426, 0, 0, 0, 0, 0),
    "io_uring_register": (427, 0, 0, 0, 0),
    "userfaultfd": (323, 0),
    "bpf": (321, 0, 0, 0),
    "perf_event_open": (298, 0, 0, 0, 0, 0),
    "keyctl": (250, 0, 0, 0, 0, 0),
    "add_key": (248, 0, 0, 0, 0, 0),
    "request_key": (249, 0, 0, 0, 0),
    "process_vm_readv": (310, 1, 0, 0, 0, 0, 0),
    "process_vm_writev": (311, 1, 0, 0, 0, 0, 0),
    "pidfd_getfd": (438, 0, 0, 0),
    "kcmp": (312, 1, 1, 0, 0, 0),
    "unshare of nothing": (272, 0),
    "setns": (308, 0, 0),
    "mount": (165, 0, 0, 0, 0, 0),
    "umount2": (166, 0, 0),
    "pivot_root": (155, 0, 0),
    "chroot": (161, 0),
    "open_by_handle_at": (304, 0, 0, 0),
    "name_to_handle_at": (303, 0, 0, 0, 0, 0),
    "fsopen": (430, 0, 0),
    "open_tree": (428, 0, 0, 0),
    "move_mount": (429, 0, 0, 0, 0, 0),
    "clone3": (435, 0, 0),
    "init_module": (175, 0, 0, 0),
    "kexec_load": (246, 0, 0, 0, 0),
    "syslog": (103, 10, 0, 0),
    "openat2": (437, -100, 0, 0, 0),
    "a call of a later kernel": (999,),
    "getpid as x32": (X32 | 39,),
    "socket as x32": (X32 | 41, 40, 1, 0),
}
REFUSED: dict[str, tuple[int, ...]] = {
    "clone of a user namespace": (56, NEW_USER | SIGCHLD, 0, 0, 0, 0),
    "clone of a network namespace": (56, NEW_NET | SIGCHLD, 0, 0, 0, 0),
    "personality that disables randomisation": (135, 0x0040000),
    "setuid on a file": (268, -100, 0, 0o4755),
    "TIOCSTI": (16, 0, 0x5412, 0),
    "TIOCSETD": (16, 0, 0x5423, 0),
    "TIOCSETD with a bit that the kernel does not see": (16, 0, 1 << 32 | 0x5423, 0),
    "a raw socket": (41, 2, 3, 1),
}
NO_FAMILY: dict[str, tuple[int, ...]] = {
    "AF_VSOCK": (41, 40, 1, 0),
    "AF_PACKET": (41, 17, 3, 0),
    "AF_XDP": (41, 44, 3, 0),
    "AF_ALG": (41, 38, 5, 0),
    "AF_TIPC": (41, 30, 2, 0),
    "AF_BLUETOOTH": (41, 31, 1, 0),
    "AF_CAN": (41, 29, 3, 0),
    "AF_KEY": (41, 15, 3, 2),
    "nfnetlink": (41, 16, 3, 12),
    "NETLINK_GENERIC": (41, 16, 3, 16),
    "NETLINK_CRYPTO": (41, 16, 3, 21),
    "NETLINK_SOCK_DIAG": (41, 16, 3, 4),
    "NETLINK_XFRM": (41, 16, 3, 6),
    "a pair of AF_VSOCK": (53, 40, 1, 0, 0),
}
ASKED = {"ENOSYS": NOT_THERE, "EPERM": REFUSED, "EAFNOSUPPORT": NO_FAMILY}

PROBE = r"""
import ctypes, errno, json, resource, sys

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

def made(words):
    ctypes.set_errno(0)
    result = libc.syscall(*(ctypes.c_long(word) for word in words))
    return errno.errorcode.get(ctypes.get_errno(), "none") if result == -1 else "done"

question = json.load(sys.stdin)
told = {name: made(words) for name, words in question.items()}
told["securebits"] = libc.prctl(27, 0, 0, 0, 0)
told["core"] = resource.getrlimit(resource.RLIMIT_CORE)
json.dump(told, sys.stdout)
"""


@pytest.fixture(scope="module", params=["untrusted", "helper"])
def told(request: pytest.FixtureRequest, agent: Box) -> dict[str, Any]:
    question = {name: call for calls in ASKED.values() for name, call in calls.items()}
    found: dict[str, Any] = agent.python(PROBE, question, as_helper=request.param == "helper")
    return found


@pytest.mark.parametrize("error", ASKED)
def test_what_is_not_for_a_sandbox_fails_with_its_error(told: dict[str, Any], error: str) -> None:
    assert {name: told[name] for name in ASKED[error]} == dict.fromkeys(ASKED[error], error)


def test_no_program_gets_privileges_or_leaves_a_core(told: dict[str, Any]) -> None:
    assert told["securebits"] == 0x2F
    assert told["core"] == [0, 0]

"""The system-call filters of the house, as data.

SIDECAR lists what a sidecar may call; all else fails. SANDBOX lists what sandboxed commands may
not: every way to a new namespace, a socket family with a way out, or another process's memory.
BROKER lists what the broker may not: to start anything, or to listen anew.
"""

from __future__ import annotations

import errno

from confine.linux import (
    CLONE_NEWCGROUP,
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    CLONE_NEWUTS,
)
from confine.seccomp import Allow, Argument, Compare, Fail, Profile, Rule

_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_NETLINK_NETFILTER = 12
_NEW_NAMESPACES = (
    CLONE_NEWNS
    | CLONE_NEWCGROUP
    | CLONE_NEWUTS
    | CLONE_NEWIPC
    | CLONE_NEWUSER
    | CLONE_NEWPID
    | CLONE_NEWNET
)
_CLONE_THREAD = 0x00010000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_FIONBIO, _FIONCLEX, _FIOCLEX = 0x5421, 0x5450, 0x5451
_PIDFD_GET_INFO = (3 << 30) | (64 << 16) | (0xFF << 8) | 11

_SOCKETS = ("socket", "socketpair")


def _family(*families: int) -> Argument:
    return Argument(0, Compare.EQUAL, families)


# Ordered by how often a busy sidecar makes them.
SIDECAR = Profile(
    name="sidecar",
    rules=(
        Rule(
            (
                "epoll_wait", "epoll_pwait", "recvfrom", "recvmsg", "sendto", "sendmsg", "read",
                "write", "readv", "writev", "epoll_ctl", "clock_gettime", "close", "accept4",
                "accept", "getsockopt", "setsockopt", "getsockname", "getpeername", "shutdown",
                "fcntl", "futex", "mmap", "munmap", "mremap", "madvise", "mprotect", "brk",
                "getrandom", "getpid", "gettid", "getuid", "geteuid", "getgid", "getegid",
                "gettimeofday", "clock_getres", "clock_nanosleep", "nanosleep", "poll", "ppoll",
                "select", "pselect6", "fstat", "lseek", "rt_sigaction", "rt_sigprocmask",
                "rt_sigreturn", "sigaltstack", "restart_syscall", "sched_yield", "rseq",
                "epoll_create1", "eventfd2", "pipe2", "membarrier", "exit", "exit_group",
            ),
            Allow(),
        ),
        Rule(
            ("ioctl",),
            Allow(),
            (Argument(1, Compare.EQUAL, (_FIONBIO, _FIOCLEX, _FIONCLEX, _PIDFD_GET_INFO)),),
        ),
    ),
    default=Fail(errno.EPERM),
)  # fmt: skip

# No program of ours or of a sandbox has a use for these.
_NEVER = (
    "io_uring_setup", "io_uring_enter", "io_uring_register", "userfaultfd", "bpf",
    "perf_event_open", "keyctl", "add_key", "request_key", "process_vm_readv",
    "process_vm_writev", "pidfd_getfd", "kcmp", "unshare", "setns", "mount", "umount2",
    "pivot_root", "chroot", "open_by_handle_at", "name_to_handle_at", "fsopen",
    "fsconfig", "fsmount", "fspick", "move_mount", "open_tree", "open_tree_attr",
    "mount_setattr", "init_module", "finit_module", "delete_module", "kexec_load",
    "kexec_file_load", "swapon", "swapoff", "reboot", "acct", "quotactl",
    "quotactl_fd", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex",
    "iopl", "ioperm", "syslog", "vhangup", "lookup_dcookie", "nfsservctl", "uselib",
    "ustat", "sysfs", "modify_ldt", "migrate_pages", "move_pages", "memfd_secret",
)  # fmt: skip

_ORDINARY_SOCKETS = (
    Rule(_SOCKETS, Allow(), (_family(_AF_UNIX, _AF_INET, _AF_INET6),)),
    Rule(
        _SOCKETS,
        Fail(errno.EAFNOSUPPORT),
        (_family(_AF_NETLINK), Argument(2, Compare.EQUAL, (_NETLINK_NETFILTER,))),
    ),
    Rule(_SOCKETS, Allow(), (_family(_AF_NETLINK),)),
    Rule(_SOCKETS, Fail(errno.EAFNOSUPPORT)),
)
_NO_NEW_NAMESPACE = Rule(
    ("clone",), Fail(errno.EPERM), (Argument(0, Compare.ANY_BIT, (_NEW_NAMESPACES,)),)
)
# Its flags are behind a pointer that a filter cannot follow; libc falls back to clone.
_NO_CLONE3 = Rule(("clone3",), Fail(errno.ENOSYS))

SANDBOX = Profile(
    name="sandbox",
    rules=(
        *_ORDINARY_SOCKETS,
        _NO_NEW_NAMESPACE,
        _NO_CLONE3,
        Rule(("ioctl",), Fail(errno.EPERM), (Argument(1, Compare.EQUAL, (_TIOCSTI, _TIOCLINUX)),)),
        Rule(_NEVER, Fail(errno.ENOSYS)),
    ),
    default=Allow(),
)

# Threads for the resolver, sockets to dial with; no process, no program, no new listener.
BROKER = Profile(
    name="broker",
    rules=(
        *_ORDINARY_SOCKETS,
        _NO_NEW_NAMESPACE,
        _NO_CLONE3,
        Rule(("clone",), Allow(), (Argument(0, Compare.ANY_BIT, (_CLONE_THREAD,)),)),
        Rule(("clone", "fork", "vfork"), Fail(errno.EPERM)),
        Rule(("execve", "execveat", "listen", "ptrace"), Fail(errno.EPERM)),
        Rule(_NEVER, Fail(errno.ENOSYS)),
    ),
    default=Allow(),
)

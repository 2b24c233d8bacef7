"""The system-call filters of our programs and of sandboxes, as data.

SIDECAR and SANDBOX list what may be called; all else fails, also what a later kernel brings. Not in
SANDBOX: every way to a new namespace, a socket family with a way out, another process's memory.
BROKER lists what the broker may not do: start anything, or listen anew.
"""

from __future__ import annotations

import errno

from gitmoat.confine.linux import (
    CLONE_NEWCGROUP,
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    CLONE_NEWUTS,
)
from gitmoat.confine.seccomp import Allow, Argument, Compare, Fail, Profile, Rule

_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_NETLINK_ROUTE = 0
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
# PER_LINUX, UNAME26, PER_LINUX32, both, and the question which it is: what programs ask for.
_PERSONALITIES = (0x0, 0x20000, 0x8, 0x20008, 0xFFFFFFFF)
_SETUID_OR_SETGID = 0o6000
_O_CREAT, _O_TMPFILE = 0o100, 0o20000000
# TIOCSTI types into a terminal that another process reads (CVE-2017-5226). TIOCSETD loads a line
# discipline (slip, ppp, n_gsm) into the kernel, which needs no privilege on a terminal of one's own
# and has been a way to root.
_TIOCSTI, _TIOCSETD = 0x5412, 0x5423
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
                "write", "readv", "writev", "epoll_ctl", "clock_gettime",
                "close", "accept4", "accept", "getsockopt", "setsockopt", "getsockname",
                "getpeername", "shutdown",
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

# The broker has no use for these.
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

# What programs in a sandbox call from day to day.
_EVERYDAY = (
    "accept", "accept4", "access", "alarm", "arch_prctl", "bind", "brk", "cachestat", "capget",
    "capset", "chdir", "chown", "clock_getres", "clock_gettime", "clock_nanosleep", "close",
    "close_range", "connect", "copy_file_range", "dup", "dup2", "dup3", "epoll_create",
    "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait", "eventfd",
    "eventfd2", "execve", "execveat", "exit", "exit_group", "faccessat", "faccessat2",
    "fadvise64", "fallocate", "fchdir", "fchown", "fchownat", "fcntl", "fdatasync", "fgetxattr",
    "flistxattr", "flock", "fork", "fremovexattr", "fsetxattr", "fstat", "fstatat", "fstatfs",
    "fsync", "ftruncate", "futex", "futex_requeue", "futex_wait", "futex_waitv", "futex_wake",
    "futimesat", "get_mempolicy", "get_robust_list", "getcpu", "getcwd", "getdents", "getdents64",
    "getegid", "geteuid", "getgid", "getgroups", "getitimer", "getpeername", "getpgid", "getpgrp",
    "getpid", "getppid", "getpriority", "getrandom", "getresgid", "getresuid", "getrlimit",
    "getrusage", "getsid", "getsockname", "getsockopt", "gettid", "gettimeofday", "getuid",
    "getxattr", "getxattrat", "inotify_add_watch", "inotify_init", "inotify_init1",
    "inotify_rm_watch", "io_cancel", "io_destroy", "io_getevents", "io_pgetevents", "io_setup",
    "io_submit", "ioprio_get", "ioprio_set", "kill", "landlock_add_rule",
    "landlock_create_ruleset", "landlock_restrict_self", "lchown", "lgetxattr", "link", "linkat",
    "listen", "listxattr", "listxattrat", "llistxattr", "lremovexattr", "lseek", "lsetxattr",
    "lstat", "madvise", "mbind", "membarrier", "memfd_create", "mincore", "mkdir", "mkdirat",
    "mlock", "mlock2", "mlockall", "mmap", "mprotect", "mq_getsetattr", "mq_notify", "mq_open",
    "mq_timedreceive", "mq_timedsend", "mq_unlink", "mremap", "mseal", "msgctl", "msgget",
    "msgrcv", "msgsnd", "msync", "munlock", "munlockall", "munmap", "nanosleep", "newfstatat",
    "pause", "pidfd_open", "pidfd_send_signal", "pipe", "pipe2", "pkey_alloc", "pkey_free",
    "pkey_mprotect", "poll", "ppoll", "prctl", "pread64", "preadv", "preadv2", "prlimit64",
    "process_mrelease", "pselect6", "ptrace", "pwrite64", "pwritev", "pwritev2", "read",
    "readahead", "readlink", "readlinkat", "readv", "recvfrom", "recvmmsg", "recvmsg",
    "removexattr", "removexattrat", "rename", "renameat", "renameat2", "restart_syscall", "rmdir",
    "rseq", "rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigqueueinfo", "rt_sigreturn",
    "rt_sigsuspend", "rt_sigtimedwait", "rt_tgsigqueueinfo", "sched_get_priority_max",
    "sched_get_priority_min", "sched_getaffinity", "sched_getattr", "sched_getparam",
    "sched_getscheduler", "sched_rr_get_interval", "sched_setaffinity", "sched_setattr",
    "sched_setparam", "sched_setscheduler", "sched_yield", "seccomp", "select", "semctl",
    "semget", "semop", "semtimedop", "sendfile", "sendmmsg", "sendmsg", "sendto", "set_mempolicy",
    "set_robust_list", "set_tid_address", "setfsgid", "setfsuid", "setgid", "setgroups",
    "setitimer", "setpgid", "setpriority", "setregid", "setresgid", "setresuid", "setreuid",
    "setrlimit", "setsid", "setsockopt", "setuid", "setxattr", "setxattrat", "shmat", "shmctl",
    "shmdt", "shmget", "shutdown", "sigaltstack", "signalfd", "signalfd4", "splice", "stat",
    "statfs", "statx", "symlink", "symlinkat", "sync", "sync_file_range", "syncfs", "sysinfo",
    "tee", "tgkill", "time", "timer_create", "timer_delete", "timer_getoverrun", "timer_gettime",
    "timer_settime", "timerfd_create", "timerfd_gettime", "timerfd_settime", "times", "tkill",
    "truncate", "umask", "uname", "unlink", "unlinkat", "utime", "utimensat", "utimes", "vfork",
    "vmsplice", "wait4", "waitid", "write", "writev",
)  # fmt: skip

# A work directory is the host's: a program made setuid in it would be so for everybody there.
# openat2 has its mode behind a pointer, so it is not in the list at all.
_MODE_ARGUMENT = {
    "chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "mknod": 1, "mknodat": 2, "creat": 1,
    "open": 2, "openat": 3,
}  # fmt: skip
_FLAGS_ARGUMENT = {"open": 1, "openat": 2}


def _no_setuid(call: str) -> tuple[Rule, Rule]:
    """The mode of an open means something only where the open can create."""
    creating = (
        (Argument(_FLAGS_ARGUMENT[call], Compare.ANY_BIT, (_O_CREAT | _O_TMPFILE,)),)
        if call in _FLAGS_ARGUMENT
        else ()
    )
    mode = Argument(_MODE_ARGUMENT[call], Compare.ANY_BIT, (_SETUID_OR_SETGID,))
    return Rule((call,), Fail(errno.EPERM), (*creating, mode)), Rule((call,), Allow())


# Of netlink what getifaddrs() asks. The packet filter, crypto, audit and the generic families are
# parsers in the kernel that are not for a sandbox to try.
_ORDINARY_SOCKETS = (
    Rule(_SOCKETS, Allow(), (_family(_AF_UNIX, _AF_INET, _AF_INET6),)),
    Rule(
        _SOCKETS,
        Allow(),
        (_family(_AF_NETLINK), Argument(2, Compare.EQUAL, (_NETLINK_ROUTE,))),
    ),
    Rule(_SOCKETS, Fail(errno.EAFNOSUPPORT)),
)
_NO_NEW_NAMESPACE = Rule(
    ("clone",), Fail(errno.EPERM), (Argument(0, Compare.ANY_BIT, (_NEW_NAMESPACES,)),)
)
# Its flags are behind a pointer that a filter cannot follow (Flatpak had to block it for
# CVE-2021-41133). ENOSYS, because libc falls back to clone only then.
_NO_CLONE3 = Rule(("clone3",), Fail(errno.ENOSYS))

SANDBOX = Profile(
    name="sandbox",
    rules=(
        Rule(_EVERYDAY, Allow()),
        *(rule for call in _MODE_ARGUMENT for rule in _no_setuid(call)),
        *_ORDINARY_SOCKETS,
        _NO_NEW_NAMESPACE,
        Rule(("clone",), Allow()),
        Rule(("ioctl",), Fail(errno.EPERM), (Argument(1, Compare.EQUAL, (_TIOCSTI, _TIOCSETD)),)),
        Rule(("ioctl",), Allow()),
        Rule(("personality",), Allow(), (Argument(0, Compare.EQUAL, _PERSONALITIES),)),
        Rule(("personality",), Fail(errno.EPERM)),
    ),
    default=Fail(errno.ENOSYS),
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

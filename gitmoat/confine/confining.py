"""The one routine by which a process gives up what it does not need.

Order matters: limits and chroot need root; the bounding set must go before the uid; landlock and
seccomp need no-new-privs and come last because they forbid the steps before them.
"""

from __future__ import annotations

import os
import resource

from attrs import frozen

from gitmoat.confine import landlock, linux, profiles
from gitmoat.confine.seccomp import compile_profile


@frozen
class Limits:
    """None leaves the inherited limit."""

    open_files: int
    processes: int | None = None
    file_size: int | None = None
    address_space: int | None = None
    cpu_time: int | None = None


@frozen
class Confinement:
    uid: int
    gid: int
    limits: Limits
    seccomp: bytes | None
    root: str | None = None
    # None: files as the uid has them. A list: no change to files but below these directories.
    # Empty: no file can be opened at all.
    writable: tuple[str, ...] | None = None
    # A process that will exec a command for the sandbox's owner keeps the usual dumpable flag.
    dumpable: bool = False
    # Only for a user of this host, who has them anyway.
    groups: tuple[int, ...] = ()


def _limit(kind: int, value: int | None) -> None:
    if value is not None:
        resource.setrlimit(kind, (value, value))


def _at_most_hard(processes: int | None) -> int | None:
    """Without capabilities no limit can be raised; a small machine's kernel gives a lower one."""
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    if processes is None or hard == resource.RLIM_INFINITY:
        return processes
    return min(processes, hard)


def _apply_limits(limits: Limits) -> None:
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_NOFILE, limits.open_files)
    _limit(resource.RLIMIT_FSIZE, limits.file_size)
    _limit(resource.RLIMIT_AS, limits.address_space)
    _limit(resource.RLIMIT_CPU, limits.cpu_time)


def _become(uid: int, gid: int, groups: tuple[int, ...], last_capability: int) -> None:
    # capabilities(7): securebits and the bounding set need CAP_SETPCAP, groups and gid CAP_SETGID,
    # all of which setuid takes away. All three uids: a saved one can be taken back (setresuid(2)).
    linux.lock_securebits()
    linux.drop_bounding_set(last_capability)
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    linux.drop_capabilities()


def confine(confinement: Confinement) -> None:
    """Needs a single-threaded process with euid 0; afterwards there is no way back."""
    if confinement.uid <= 0 or confinement.gid <= 0:
        raise ValueError("a confined process is never root")
    last_capability = linux.last_capability()
    abi = landlock.abi_version()
    places = [os.open(path, os.O_PATH | os.O_CLOEXEC) for path in confinement.writable or ()]
    _apply_limits(confinement.limits)
    if confinement.root is not None:
        # chroot(2) leaves the working directory outside, from which `..` leads anywhere.
        os.chroot(confinement.root)
        os.chdir("/")
    _become(confinement.uid, confinement.gid, confinement.groups, last_capability)
    _give_up_the_rest(confinement, abi, places)


def confine_further(confinement: Confinement) -> None:
    """For a process that was started as this uid already: what needs no root."""
    if (os.geteuid(), os.getegid()) != (confinement.uid, confinement.gid):
        raise ValueError("a process that is to stay itself is somebody else")
    abi = landlock.abi_version()
    places = [os.open(path, os.O_PATH | os.O_CLOEXEC) for path in confinement.writable or ()]
    _apply_limits(confinement.limits)
    _give_up_the_rest(confinement, abi, places)


def _give_up_the_rest(confinement: Confinement, abi: int, places: list[int]) -> None:
    # Without CAP_SYS_ADMIN, seccomp(2) and landlock_restrict_self(2) demand it; and no setuid
    # program gives anything back.
    linux.no_new_privileges()
    if not confinement.dumpable:
        linux.not_dumpable()
    # After setuid: the limit counts all processes of the uid, and root is exempt from it.
    _limit(resource.RLIMIT_NPROC, _at_most_hard(confinement.limits.processes))
    _restrict_files(confinement, abi, places)
    if confinement.seccomp is not None:
        linux.install_seccomp(confinement.seccomp)


def _restrict_files(confinement: Confinement, abi: int, places: list[int]) -> None:
    if confinement.writable == ():
        landlock.deny_everything(abi)
    elif confinement.writable is not None:
        landlock.deny_writes_but(abi, places)
    for place in places:
        os.close(place)


def become_broker(uid: int, gid: int, state: str) -> None:
    """The broker dials, resolves and writes below its own state; it starts nothing, ever."""
    confine(_broker(uid, gid, state))


def stay_broker(uid: int, gid: int, state: str) -> None:
    """The same for a broker that a service manager started as its own uid."""
    confine_further(_broker(uid, gid, state))


def _broker(uid: int, gid: int, state: str) -> Confinement:
    return Confinement(
        uid=uid,
        gid=gid,
        limits=Limits(open_files=16384),
        seccomp=compile_profile(profiles.BROKER),
        writable=(state,),
    )

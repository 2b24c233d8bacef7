"""The one routine by which a process gives up what it does not need.

Order matters: limits and chroot need root; the bounding set must go before the uid; landlock and
seccomp need no-new-privs and come last because they forbid the steps before them.
"""

from __future__ import annotations

import os
import resource

from attrs import frozen

from confine import landlock, linux


@frozen
class Limits:
    """None leaves the inherited limit."""

    open_files: int
    processes: int | None = None
    file_size: int | None = None
    address_space: int | None = None


@frozen
class Confinement:
    uid: int
    gid: int
    limits: Limits
    seccomp: bytes | None
    root: str | None = None
    no_files: bool = False
    # A process that will exec a command for the sandbox's owner keeps the usual dumpable flag.
    dumpable: bool = False


def _limit(kind: int, value: int | None) -> None:
    if value is not None:
        resource.setrlimit(kind, (value, value))


def _apply_limits(limits: Limits) -> None:
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_NOFILE, limits.open_files)
    _limit(resource.RLIMIT_FSIZE, limits.file_size)
    _limit(resource.RLIMIT_AS, limits.address_space)


def _become(uid: int, gid: int, last_capability: int) -> None:
    linux.lock_securebits()
    linux.drop_bounding_set(last_capability)
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    linux.drop_capabilities()


def confine(confinement: Confinement) -> None:
    """Needs a single-threaded process with euid 0; afterwards there is no way back."""
    if confinement.uid <= 0 or confinement.gid <= 0:
        raise ValueError("a confined process is never root")
    last_capability = linux.last_capability()
    abi = landlock.abi_version() if confinement.no_files else 0
    _apply_limits(confinement.limits)
    if confinement.root is not None:
        os.chroot(confinement.root)
        os.chdir("/")
    _become(confinement.uid, confinement.gid, last_capability)
    linux.no_new_privileges()
    if not confinement.dumpable:
        linux.not_dumpable()
    # After setuid: the limit counts all processes of the uid, and root is exempt from it.
    _limit(resource.RLIMIT_NPROC, confinement.limits.processes)
    if confinement.no_files:
        landlock.deny_everything(abi)
    if confinement.seccomp is not None:
        linux.install_seccomp(confinement.seccomp)


def become_broker(uid: int, gid: int) -> None:
    """The broker keeps files and sockets, and loses root, capabilities and core dumps."""
    confine(Confinement(uid=uid, gid=gid, limits=Limits(open_files=16384), seccomp=None))

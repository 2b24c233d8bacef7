"""Containers that others started: controls over what is mounted in them and set for them."""

from __future__ import annotations

from tests.mutations.table import Mutation

MOUNTED = ("tests/unit/hostd/docker/test_mount_rules.py",)
ATTACH = "tests/docker/test_docker_attach.py"
REFUSED = f"{ATTACH}::test_a_container_that_is_not_sealed_is_refused_with_its_reason"

CONTAINERS = (
    Mutation(
        "attach: other file systems below a forbidden place may be mounted",
        "hostd/docker/mount_rules.py",
        "    paths = seen_at(mount.place, outside)\n",
        "    paths: list[PurePosixPath] = []\n",
        MOUNTED,
    ),
    Mutation(
        "images: where URLs lead is what the image says",
        "hostd/sandbox/gitconfig.py",
        "        if keeping:\n",
        "        if True:\n",
        ("tests/unit/hostd/sandbox/test_gitconfig.py",),
    ),
    Mutation(
        "attach: any group of processes is the container's own",
        "hostd/docker/mount_rules.py",
        "        return own and there and mount.read_only\n",
        "        return there\n",
        MOUNTED,
    ),
    Mutation(
        "attach: sockets below a mounted directory are not looked for",
        "hostd/sandbox/lifecycle.py",
        "        await look_for_sockets(host, sandbox)\n",
        "",
        (f"{REFUSED}[-v DEEP:/x]",),
    ),
    Mutation(
        "attach: what cannot be looked through in time has no socket in it",
        "hostd/verify/attempts/file_system.py",
        "        if time.monotonic() >= deadline:\n            return f",
        "        if False:\n            return f",
        ("tests/unit/hostd/verify/attempts/test_file_system.py",),
    ),
    Mutation(
        "attach: groups of the host and settings of the kernel are as one likes",
        "hostd/docker/containers.py",
        "unsealed(found, seal, (*RULES, *ATTACHED))",
        "unsealed(found, seal, RULES)",
        (f"{REFUSED}[--cgroupns host]",),
    ),
)

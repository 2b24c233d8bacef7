"""A sandbox's two containers: the netns holder, and its own, which runs in the holder's network.

Both run only a pause. The holder is started first: rules, listeners, sidecar and probes are there
before the sandbox's own container starts. What Docker and the kernel say of that container is
checked before the session is activated and at intervals afterwards.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from attrs import field, frozen
from twisted.internet.defer import Deferred, DeferredLock, gatherResults
from twisted.logger import Logger

from gitmoat.confine.docker_profile import docker_profile
from gitmoat.confine.profiles import SANDBOX
from hostd.atomic_file import write_whole
from hostd.docker import pause
from hostd.docker.engine import LABEL, Bind, ContainerSpec, Engine, Limits
from hostd.docker.mount_check import MountCheck
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
from hostd.failures import Failed
from hostd.process.cgroups import directories_of
from hostd.process.handle import Process, Watch
from hostd.process.proc import mountinfo, text_of
from hostd.sandbox.bwrap import HOME, RUN, WORKSPACE, FirstProcess
from hostd.sandbox.environment import container_environment, foreign_environment
from hostd.sandbox.gitconfig import LEADING, SYSTEM, write_image_gitconfig
from hostd.sandbox.plan import Ours
from hostd.sandbox.sandbox import Container, Sandbox

_log = Logger()
_PAUSE = f"{RUN}/pause"
_NOBODY = 65534
_HOLDER_LIMITS = Limits(memory=32 << 20, pids=16)
# `listen` sets these too; set from the beginning they keep every process from the sidecar's ports.
_HOLDER_SYSCTLS = {"net.ipv4.ip_unprivileged_port_start": "1024"}
_TMP = "rw,exec,nosuid,nodev,mode=1777,size=2g"
_TMP_DIRECTORIES = ("/tmp", "/var/tmp")  # noqa: S108 - the container's own
_ATTEMPTS = 50
_PAUSE_BETWEEN = 0.01
_KNOWN_IMAGES = 64


@frozen
class RunningContainer:
    """A container that runs and was checked, and its first process."""

    container: Container
    process: Process


def name_of(identifier: str, holder: bool = False) -> str:
    return f"gitmoat-{identifier}" + ("-net" if holder else "")


@frozen
class Containers:
    """Makes, checks and removes them; `instance` tells two hostd that use one Docker apart."""

    reactor: Any
    engine: Engine
    instance: str
    pause: Path
    mount_check: MountCheck
    # Names of containers that are to be removed, until Docker has removed them.
    _unremoved: set[str] = field(factory=set)
    _removing: DeferredLock = field(factory=DeferredLock)
    # What the /etc/gitconfig of an image says, by the image's id, which is the hash of what it is.
    _gitconfigs: dict[str, bytes] = field(factory=dict)
    seccomp: dict[str, Any] = field(
        factory=lambda: docker_profile(SANDBOX, os.uname().machine), repr=False
    )

    # Starting

    async def check(self) -> None:
        """Refuses a Docker Engine whose containers cannot be checked here."""
        options = (await self.engine.info()).get("SecurityOptions") or ()
        for option in options:
            if option.startswith(("name=userns", "name=rootless")):
                raise Failed(
                    "R113",
                    "this Docker Engine maps uids",
                    why=f"{option}: a sandbox's uids would not be its own",
                    fix="use an engine without userns-remap, or --runtime bwrap",
                    exit_code=125,
                )

    async def start_holder(self, sandbox: Sandbox) -> FirstProcess:
        plan = sandbox.plan
        await self.check()
        spec = ContainerSpec(
            name=name_of(plan.id, holder=True),
            image=await self.engine.pause_image(),
            program="/pause",
            uid=_NOBODY,
            network="none",
            seccomp=self.seccomp,
            limits=_HOLDER_LIMITS,
            instance=self.instance,
            hostname=plan.name,
            sysctls=_HOLDER_SYSCTLS,
            dns=["127.0.0.1"],
        )
        await self._remove_namesakes(plan.id)
        container = await self.engine.create(spec)
        found = await self.engine.start(container)
        seal = Seal("none", _NOBODY, filter_digest(self.seccomp))
        running = await self._checked(found, seal, ())
        sandbox.holding = running.container
        return _first_process(sandbox, running.process)

    async def create(self, sandbox: Sandbox, workspace: Path, read_only: bool) -> None:
        """Creates the sandbox's container in the holder's network, and does not start it."""
        plan = sandbox.plan
        if not isinstance(plan.ownership, Ours) or sandbox.holding is None:
            raise Failed("R106", f"sandbox {plan.name} is not running")
        image = await self.engine.image(plan.ownership.image)
        sandbox.environment = container_environment((image.get("Config") or {}).get("Env") or ())
        self._write_pause()
        write_image_gitconfig(sandbox, await self._gitconfig_of(sandbox, str(image["Id"])))
        binds = self._binds(sandbox, workspace, read_only)
        spec = ContainerSpec(
            name=name_of(plan.id),
            image=str(image["Id"]),  # a name may mean another image by then
            program=_PAUSE,
            uid=plan.uids.untrusted,
            network=f"container:{sandbox.holding.id}",
            seccomp=self.seccomp,
            limits=Limits(
                memory=plan.limits.memory or 0, pids=plan.limits.pids or 0, cpus=plan.limits.cpus
            ),
            instance=self.instance,
            environment=sandbox.environment,
            binds=binds,
            tmpfs=_tmpfs(plan.uids.untrusted),
        )
        identifier = await self.engine.create(spec)
        mounts = tuple(Mount(each.source, each.target, each.read_only) for each in binds)
        sandbox.container = Container(identifier, mounts=mounts)

    async def _gitconfig_of(self, sandbox: Sandbox, image: str) -> bytes:
        """What the image's own /etc/gitconfig says, over which ours will be mounted."""
        if image not in self._gitconfigs:
            spec = ContainerSpec(
                name=name_of(sandbox.plan.id),  # as the next one: one that is left is removed
                image=image,
                program=_PAUSE,
                uid=sandbox.plan.uids.untrusted,
                network="none",
                seccomp=self.seccomp,
                limits=_HOLDER_LIMITS,
                instance=self.instance,
            )
            if len(self._gitconfigs) >= _KNOWN_IMAGES:
                self._gitconfigs.clear()
            self._gitconfigs[image] = await self.engine.small_file(spec, SYSTEM)
        return self._gitconfigs[image]

    def _binds(self, sandbox: Sandbox, workspace: Path, read_only: bool) -> list[Bind]:
        directories = sandbox.directories
        return [
            Bind(source=str(directories.run), target=RUN),
            Bind(source=str(directories.run / LEADING), target=SYSTEM),
            Bind(source=str(self.pause), target=_PAUSE),
            Bind(source=str(workspace), target=WORKSPACE, read_only=read_only),
            Bind(source=str(directories.home), target=HOME, read_only=False),
        ]

    def _write_pause(self) -> None:
        """It is not below /run, which many hosts mount with noexec."""
        if not self.pause.exists():
            write_whole(self.pause, pause.program(), 0o755)

    async def join(self, sandbox: Sandbox) -> None:
        """Starts the sandbox's own container; from here on commands can join it."""
        container = sandbox.container
        if container is None:
            raise Failed("R106", f"sandbox {sandbox.plan.name} is not running")
        seal = self._seal(sandbox, filter_digest(self.seccomp))
        before = await self.engine.inspect(container.id)
        _require_none([each.reason for each in unsealed(before, seal)])
        found = await self.engine.start(container.id)
        running = await self._checked(found, seal, container.mounts)
        sandbox.container = running.container
        sandbox.first = _first_process(sandbox, running.process)
        sandbox.cgroups["sandbox"] = groups_of(running.process.pid)
        await self._check_alone(sandbox)

    async def admit(self, sandbox: Sandbox, found: dict[str, Any]) -> None:
        """Takes a container that somebody else started, if it is sealed."""
        seal = self._seal(sandbox, filter_digest(self.seccomp))
        _require_none([each.reason for each in unsealed(found, seal, (*RULES, *ATTACHED))])
        running = await self._checked(found, seal, ())
        _require_none(await self.mount_check.wrong(sandbox, found, running.process.pid))
        sandbox.environment = foreign_environment((found["Config"] or {}).get("Env") or ())
        sandbox.container = running.container
        sandbox.first = _first_process(sandbox, running.process)
        sandbox.cgroups["sandbox"] = groups_of(running.process.pid)
        await self._check_alone(sandbox)

    # Checking

    def _seal(self, sandbox: Sandbox, profile: str | None) -> Seal:
        if sandbox.holding is None:
            raise Failed("R106", f"sandbox {sandbox.plan.name} is not running")
        network = f"container:{sandbox.holding.id}"
        return Seal(network, sandbox.plan.uids.untrusted, profile)

    async def _checked(
        self, found: dict[str, Any], seal: Seal, mounts: tuple[Mount, ...]
    ) -> RunningContainer:
        """Compares what Docker and the kernel say of one process, which a pidfd names."""
        state, identifier = found["State"], str(found["Id"])
        pid = int(state["Pid"])
        if not state.get("Running") or pid <= 0:
            raise Failed("R101", "the container ended at once", why=str(state.get("Error") or ""))
        try:
            process = Process(pid, os.pidfd_open(pid))
        except ProcessLookupError:
            raise Failed("R101", "the container ended at once") from None
        Watch(self.reactor, process)
        # The pidfd comes first: until it is readable, /proc/PID is this process (pidfd_open(2)).
        await self._wait_for_exec(process)
        _require_none(self._wrong(found, seal, mounts, identifier, pid))
        container = Container(
            identifier,
            pid,
            str(state["StartedAt"]),
            cgroup_id(pid),
            mounts=mounts,
            filter=filter_of(found["HostConfig"]),
        )
        return RunningContainer(container, process)

    def _wrong(
        self,
        found: dict[str, Any],
        seal: Seal,
        mounts: tuple[Mount, ...],
        identifier: str,
        pid: int,
    ) -> list[str]:
        wrong = [each.reason for each in unsealed(found, seal)]
        if mounts:  # of our own containers; `MountCheck` has the kernel's list for the others
            wrong += [f"{each} is mounted in it" for each in strange_mounts(found, mounts)]
        status = text_of(pid, "status")
        wrong += wrong_in_kernel(status, seal.uid) if status else ["it has ended"]
        if container_of(text_of(pid, "cgroup")) != identifier:
            wrong.append("its process is not in its cgroup")
        return wrong

    async def _wait_for_exec(self, process: Process) -> None:
        """Docker can answer before `runc init` has executed the pause."""
        for _ in range(_ATTEMPTS):
            if "runc" not in text_of(process.pid, "comm"):
                return
            pause: Deferred[None] = Deferred()
            self.reactor.callLater(_PAUSE_BETWEEN, pause.callback, None)
            await pause

    async def _check_alone(self, sandbox: Sandbox) -> None:
        others = await self._companions(sandbox)
        if others:
            raise Failed(
                "R115",
                "another container shares the sandbox's network",
                why=", ".join(others),
                fix=f"docker rm -f {others[0]}",
            )

    async def _companions(self, sandbox: Sandbox) -> list[str]:
        if sandbox.holding is None:
            return []
        ours = sandbox.container.id if sandbox.container else None
        return companions(await self.engine.containers(), sandbox.holding.id, ours)

    async def what_is_wrong(self, sandbox: Sandbox) -> str | None:
        """Checks a running container again. Raises Failed when Docker does not answer."""
        for container, seal in self._expected(sandbox):
            try:
                found = await self.engine.inspect(container.id)
            except Failed as problem:
                if problem.code == "R116":
                    return "its container was removed"
                raise
            state = found["State"]
            if (state["Pid"], state["StartedAt"]) != (container.pid, container.started):
                return "its container was restarted"
            wrong = self._wrong(found, seal, container.mounts, container.id, container.pid)
            if sandbox.plan.foreign and container is sandbox.container:
                wrong += await self.mount_check.wrong(sandbox, found, container.pid)
            if wrong:
                return f"its container is not sealed any more: {wrong[0]}"
        others = await self._companions(sandbox)
        return f"another container shares its network: {others[0]}" if others else None

    def _expected(self, sandbox: Sandbox) -> list[tuple[Container, Seal]]:
        """The filter is the one that the container was admitted with, perhaps by an earlier
        version: it cannot change while the container runs (seccomp(2))."""
        found = []
        if sandbox.holding is not None:
            found.append((sandbox.holding, Seal("none", _NOBODY, sandbox.holding.filter)))
        if sandbox.container is not None and sandbox.first is not None:
            found.append((sandbox.container, self._seal(sandbox, sandbox.container.filter)))
        return found

    # Ending

    async def remove(self, identifier: str) -> None:
        """Removes both containers of a sandbox; a Docker that hangs is asked again later."""
        names = [name_of(identifier), name_of(identifier, holder=True)]
        self._unremoved.update(names)
        await gatherResults([Deferred.fromCoroutine(self._remove(name)) for name in names])

    async def forget(self, identifier: str) -> None:
        """As `remove`, for a sandbox without a record; a Docker that is absent is not asked."""
        if identifier in await self.leftover():
            await self.remove(identifier)

    async def _remove_namesakes(self, identifier: str) -> None:
        """Containers that could not be removed at a sandbox's end have the new ones' names."""
        async with self._removing:
            for name in (name_of(identifier), name_of(identifier, holder=True)):
                if name in self._unremoved:
                    await self.engine.remove(name)
                    self._unremoved.discard(name)

    async def _remove(self, name: str) -> None:
        async with self._removing:
            if name not in self._unremoved:
                return
            try:
                await self.engine.remove(name)
                self._unremoved.discard(name)
            except Failed as problem:
                _log.warn("container {name} is still there: {why}", name=name, why=str(problem))

    def remove_overdue(self) -> None:
        for name in sorted(self._unremoved):
            done = Deferred.fromCoroutine(self._remove(name))
            done.addErrback(lambda failure: _log.failure("removing a container failed", failure))

    async def leftover(self) -> set[str]:
        """Ids of sandboxes of which Docker still has containers."""
        if not Path(self.engine.socket).exists():
            return set()
        try:
            listed = await self.engine.containers()
        except Failed as problem:
            _log.warn("docker was not asked for leftovers: {why}", why=str(problem))
            return set()
        made = [each for each in listed if (each.get("Labels") or {}).get(LABEL) == self.instance]
        # An image can set labels (Dockerfile LABEL); only who creates the container sets its name.
        names = [name.lstrip("/") for each in made for name in each.get("Names") or ()]
        return {
            name.removeprefix("gitmoat-").removesuffix("-net")
            for name in names
            if name.startswith("gitmoat-")
        }


def _tmpfs(uid: int) -> dict[str, str]:
    """runc takes the mode of a tmpfs from the image's directory, if there is one: so the mount
    also has an owner."""
    return dict.fromkeys(_TMP_DIRECTORIES, f"{_TMP},uid={uid},gid={uid}")


def _first_process(sandbox: Sandbox, process: Process) -> FirstProcess:
    first = FirstProcess(process, process.pid, os.dup(process.pidfd))
    sandbox.descriptors.append(first.pidfd)
    return first


def _require_none(wrong: list[str]) -> None:
    if wrong:
        raise Failed("R115", "the container is not sealed", why="; ".join(wrong))


def groups_of(pid: int) -> tuple[str, ...]:
    return directories_of(text_of(pid, "cgroup"), mountinfo())


def cgroup_id(pid: int) -> int | None:
    """The kernel's own name for a cgroup: the inode of its v2 directory."""
    unified = [line for line in text_of(pid, "cgroup").splitlines() if line.startswith("0::")]
    found = directories_of("\n".join(unified), mountinfo())
    return Path(found[0]).stat().st_ino if found else None

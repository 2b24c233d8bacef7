"""Ends a sandbox: its session, then its processes, then its files.

`destroy` undoes whatever was made, in any state, and may be called twice.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from gitmoat.audit.events import SandboxRemoved, SandboxStopped
from gitmoat.audit.journal import JournalUnavailable
from hostd.deferreds import within
from hostd.failures import Failed
from hostd.network.nft import tool
from hostd.process.cgroups import out_of_memory, thaw
from hostd.registry import Step
from hostd.sandbox.outputs import end_output, remove_output
from hostd.sandbox.sandbox import Sandbox
from hostd.sandbox.steps import save_if_possible
from hostd.this_host import CGROUPS, Host

_log = Logger()
_TIMEOUT = 30.0  # a process that is killed while it waits for a disk ends when the disk answers


async def destroy(host: Host, sandbox: Sandbox, reason: str) -> None:
    """Ends it and removes all that was made for it, the workspace too."""
    await end_for_removal(host, sandbox, reason)
    await remove_files(host, sandbox.plan.id)


async def end_for_removal(host: Host, sandbox: Sandbox, reason: str) -> None:
    """From here on the sandbox can only be removed; afterwards only its files are left."""
    sandbox.record = sandbox.record.ending(reason)
    save_if_possible(host, sandbox, Step.REMOVING)
    await end(host, sandbox, reason)


async def stop(host: Host, sandbox: Sandbox, reason: str) -> None:
    """Ends it and keeps its files."""
    sandbox.record = sandbox.record.ending(reason)
    save_if_possible(host, sandbox, Step.ENDING)
    await end(host, sandbox, reason)
    save_if_possible(host, sandbox, Step.STOPPED, processes={}, session=None)
    record_end(host, SandboxStopped(sandbox=sandbox.plan.id, name=sandbox.plan.name, reason=reason))


def record_end(host: Host, event: SandboxStopped | SandboxRemoved) -> None:
    """The end does not depend on the journal: the sandbox's own record also says why it ended."""
    try:
        host.journal.record(event)
    except JournalUnavailable as problem:
        _log.error("{id} has ended unrecorded: {why}", id=event.sandbox, why=str(problem))


async def end(host: Host, sandbox: Sandbox, reason: str) -> None:
    """Ends the session first, then every process; it does not need the broker for that."""
    if sandbox.sidecar is not None:
        await sandbox.sidecar.stop(reason)
        sandbox.sidecar = None
    to_end = [sandbox.gate, sandbox.holder]
    if not sandbox.plan.foreign:
        thaw(sandbox.cgroups.get("sandbox", ()))
        to_end.insert(1, sandbox.first)
    for first in to_end:
        if first is not None:
            first.end()
            if not await within(host.reactor, _TIMEOUT, first.monitor.wait()):
                _log.warn("processes of {id} do not end", id=sandbox.plan.id)
    sandbox.first = sandbox.gate = sandbox.holder = None
    sandbox.close_descriptors()
    if sandbox.plan.ownership is not None:
        await host.containers.remove(sandbox.plan.id)
        sandbox.container = sandbox.holding = None
        host.workdirs.unmount(sandbox.plan.id)
    await end_processes(host, sandbox.plan.id)
    host.workdirs.release(sandbox.plan.id)
    end_output(sandbox)


async def end_processes(host: Host, identifier: str) -> None:
    """Kills what is left in the sandbox's cgroups, and removes these."""
    for group in CGROUPS:
        host.cgroups.kill(f"{identifier}-{group}")
        await _remove_cgroup(host, f"{identifier}-{group}")


async def remove_files(host: Host, identifier: str) -> None:
    """Removes the files of a sandbox whose processes have ended.

    Its record goes last: if this fails, the record says what is left.
    """
    remove_run_files(host, identifier)
    host.sidecar_log(identifier).unlink(missing_ok=True)
    remove_output(host, identifier)
    await _remove_trees(host, host.registry.files_of(identifier))
    host.registry.forget(identifier)


def remove_run_files(host: Host, identifier: str) -> None:
    """These files are few, and all of them are hostd's: no sandbox can write there."""
    host.control_path(identifier).unlink(missing_ok=True)
    try:
        shutil.rmtree(host.paths.sandboxes_run / identifier)
    except FileNotFoundError:
        pass
    except OSError as problem:
        raise _not_removed(str(problem)) from None


async def _remove_trees(host: Host, trees: Sequence[Path]) -> None:
    if not trees:
        return
    # rm walks by descriptor and at any depth (fts(3)); no process uses these trees any more.
    remover = tool("rm", "-rf", "--one-file-system", "--", *map(str, trees))
    try:
        finished = await host.programs.run(remover, timeout=600)
    except Failed:  # the launcher ended meanwhile; another one has been started
        finished = await host.programs.run(remover, timeout=600)
    if finished.status != 0:
        raise _not_removed(finished.why())


def _not_removed(why: str) -> Failed:
    return Failed("R101", "the sandbox's files were not all removed", why=why)


async def _remove_cgroup(host: Host, name: str) -> None:
    """rmdir fails with EBUSY until the kernel has reaped what was just killed (cgroups(7))."""
    for _ in range(250):
        try:
            host.cgroups.remove(name)
            return
        except OSError:
            host.cgroups.kill(name)
            pause: Deferred[None] = Deferred()
            host.reactor.callLater(0.02, pause.callback, None)
            await pause
    _log.warn("cgroup {name} still has processes", name=name)


def why_ended(sandbox: Sandbox, ended: Sequence[str]) -> str:
    """Which of the first processes ended although hostd did not end it; and whether memory was
    short."""
    names = {
        "room": "its first process" if sandbox.plan.ownership is None else "its container",
        "gate": "the first process of its git gate",
        "holder": "the container that holds its network",
    }
    why = f"{' and '.join(names[each] for each in ended)} ended from outside"
    times = out_of_memory(sandbox.cgroups.get("sandbox", ()))
    return f"{why}; its memory was full {times} times" if times else why

"""What this installation has on disk: modes, keys, policies, sockets, free space, leftovers."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from pwd import getpwall
from typing import Any

from gitmoat.paths import Paths
from hostctl.commands.status import daemon_status, no_broker, troubles
from hostctl.doctor.findings import Finding, good, note, or_good, problem
from hostctl.failure import Failure
from hostctl.setup.configfile import read_document
from hostctl.setup.defaults import BROKER_UID, UID_BASE, UID_COUNT, Wanted, broker_uid, directories
from netpolicy.format.document import parse_policy
from netpolicy.format.reading import PolicyError

DESCRIPTORS = 16384  # as the broker has; some eight hundred sandboxes of a hostd
_LEAST_SPACE = 256 << 20
_SOCKET_LIMIT = 100
_DYNAMIC = range(61184, 65520)  # systemd gives these out
_SUBORDINATE = ("/etc/subuid", "/etc/subgid")


def wanted(paths: Paths, broker: int) -> list[Wanted]:
    """The directories that `up` makes, and the files in them."""
    root, either = (0,), (0, broker)
    return [
        *directories(paths, broker),
        Wanted(paths.broker_key, 0o600, (broker,)),
        Wanted(paths.host_key, 0o600, root),
        Wanted(paths.hostd_toml, 0o640, root),
        Wanted(paths.broker_toml, 0o640, either),
        *(Wanted(path, 0o640, either) for path in sorted(paths.broker_d.glob("*.toml"))),
        *(Wanted(path, 0o644, root) for path in sorted(paths.policies.glob("*.toml"))),
    ]


def modes(paths: Paths) -> Iterator[Finding]:
    if not paths.etc.is_dir():
        yield good("files", "nothing is set up below this root yet; `hostctl up` does it")
        return
    checked = wanted(paths, broker_of(paths))
    wrong = (finding for each in checked for finding in _judge(each))
    yield from or_good(
        wrong, "files", f"{len(checked)} files and directories have the right owner and mode"
    )


def broker_of(paths: Paths) -> int:
    try:
        return broker_uid(paths)
    except Failure:
        return BROKER_UID


def _judge(each: Wanted) -> Iterator[Finding]:
    try:
        found = each.path.lstat()
    except OSError:
        return
    if stat.S_ISLNK(found.st_mode):
        fix = f"ls -l {each.path}, then put a real file in its place"
        yield problem("files", f"{each.path} is a symlink", fix)
        return
    if found.st_uid not in each.owners:
        what = f"{each.path} belongs to uid {found.st_uid}"
        yield problem("files", what, f"chown {each.owners[-1]} {each.path}")
        return  # the owner has to be corrected first, who could widen the mode again
    if stat.S_IMODE(found.st_mode) & ~each.mode:
        what = f"{each.path} has mode {stat.S_IMODE(found.st_mode):04o}"
        fix = f"chmod {each.mode:04o} {each.path}"
        yield problem("files", what, fix, _narrower(each, found))


def _narrower(each: Wanted, seen: os.stat_result) -> Callable[[], None]:
    """Removes the excess permissions of the very file that was examined."""

    def repair() -> None:
        descriptor = os.open(each.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(descriptor)
            if (found.st_dev, found.st_ino) != (seen.st_dev, seen.st_ino):
                raise OSError("it was replaced meanwhile")
            os.fchmod(descriptor, stat.S_IMODE(found.st_mode) & each.mode)
        finally:
            os.close(descriptor)

    return repair


def policies(paths: Paths) -> Iterator[Finding]:
    files = sorted(paths.policies.glob("*.toml")) if paths.policies.is_dir() else []
    for file in files:
        try:
            parse_policy(file.read_text(encoding="utf-8"))
        except (OSError, ValueError, PolicyError) as error:
            yield problem("policies", f"{file}: {error}", f"hostctl policy check {file}")
    if files:
        yield good("policies", f"{len(files)} read")


def disk_space(paths: Paths) -> Iterator[Finding]:
    """Without free space for its journal the broker refuses everything."""
    place = paths.state if paths.state.is_dir() else paths.root
    free = shutil.disk_usage(place).free
    if free < _LEAST_SPACE:
        what = f"{free >> 20} MiB are free at {place}; without free space every request is refused"
        yield problem("disk", what, f"df -h {place}, then free some space")
    else:
        yield good("disk", f"{free >> 30} GiB are free at {place}")
    yield from _shared_disk(paths)


def _shared_disk(paths: Paths) -> Iterator[Finding]:
    """Without a file system of their own, sandboxes can fill that of the journals and the store."""
    sandboxes = paths.hostd_state / "sandboxes"
    found = {name: _device(path) for name, path in _written(paths).items()}
    device = _device(sandboxes)
    shared = [name for name, each in found.items() if each is not None and each == device]
    if shared:
        what = f"sandboxes can fill the disk of {' and '.join(shared)}; their sizes have no limit"
        yield note("disk", what, f"give {sandboxes} a file system of its own")


def _written(paths: Paths) -> dict[str, Path]:
    broker = "the broker's journal and store"
    return {broker: paths.broker_audit.parent, "hostd's journal": paths.hostd_audit.parent}


def _device(path: Path) -> int | None:
    try:
        return path.stat().st_dev
    except OSError:
        return None


def daemons(paths: Paths, version: str) -> Iterator[Finding]:
    longest = paths.sandboxes_run / ("0" * 12) / "cred.sock"
    if len(os.fsencode(longest)) >= _SOCKET_LIMIT:
        yield problem(
            "daemons", f"socket paths below {paths.root} are too long", "use a shorter root"
        )
    for name, socket in (("broker", paths.broker_admin_socket), ("hostd", paths.hostd_socket)):
        try:
            status = daemon_status(socket)
        except Failure as failure:
            yield problem("daemons", f"{name}: {failure.what}", failure.fix or "hostctl restart")
            continue
        if status["pid"] is not None:
            yield from or_good(
                _wrong(name, status, version), "daemons", f"{name} runs, pid {status['pid']}"
            )
            yield from few_descriptors(name, status["pid"])
            yield from _keeps_no_space(name, status)
        elif socket.exists():
            what = f"{socket} exists and no daemon answers"
            yield problem("daemons", what, f"rm {socket}", socket.unlink)
        else:
            yield note("daemons", f"{name} does not run", "hostctl up")


def _wrong(name: str, status: Mapping[str, object], version: str) -> Iterator[Finding]:
    if status.get("version") != version:
        what = f"{name} is {status.get('version')}, hostctl is {version}"
        yield problem("daemons", what, "hostctl restart")
    lost = no_broker(status)
    for what in troubles(status):
        fix = "the problem says where to look" if lost is None else lost.fix
        yield problem("daemons", f"{name}: {what}", fix)


def _keeps_no_space(name: str, status: Mapping[str, object]) -> Iterator[Finding]:
    """Space that is reserved can still be missing on ZFS, and NFS before 4.2 reserves none."""
    if status.get("keeps_space") is False:
        what = f"the file system of {name}'s journal reserves no space: when it is full git stops"
        yield note("daemons", what, "put it on ext4, XFS, btrfs or tmpfs")


def few_descriptors(name: str, pid: object, proc: Path = Path("/proc")) -> Iterator[Finding]:
    """Both daemons raise their limit at their start; if they may not, fewer sandboxes can run."""
    try:
        text = (proc / str(pid) / "limits").read_text(encoding="ascii")
    except OSError:
        return
    found = re.search(r"^Max open files +(\d+)", text, re.MULTILINE)
    if found and int(found[1]) < DESCRIPTORS:
        what = f"{name} may have {found[1]} descriptors, fewer than {DESCRIPTORS}"
        yield note("daemons", what, "raise LimitNOFILE of its unit and restart it")


def uids(paths: Paths) -> Iterator[Finding]:
    base, count = _range(paths)
    yield from or_good(
        _conflicts(base, count), "uids", f"{base} to {base + count - 1} belong to no account"
    )


def _range(paths: Paths) -> tuple[int, int]:
    document = _toml(paths.hostd_toml).get("uids")
    table: dict[str, Any] = document if isinstance(document, dict) else {}
    base, count = table.get("base", UID_BASE), table.get("count", UID_COUNT)
    return (
        (base, count) if isinstance(base, int) and isinstance(count, int) else (UID_BASE, UID_COUNT)
    )


def docker_socket(paths: Paths) -> str | None:
    """Where hostd.toml says that Docker is; None where it says nothing."""
    table = _toml(paths.hostd_toml).get("docker")
    named = table.get("socket") if isinstance(table, dict) else None
    return named if isinstance(named, str) else None


def _toml(path: Path) -> dict[str, Any]:
    """A file that cannot be read is empty here: the check that needs it reports it."""
    try:
        return read_document(path)
    except Failure:
        return {}


def _conflicts(base: int, count: int) -> Iterator[Finding]:
    fix = "choose another uids.base in hostd.toml, then hostctl down; hostctl up"
    ours = range(base, base + count)
    for entry in getpwall():
        if entry.pw_uid in ours:
            yield problem("uids", f"uid {entry.pw_uid} belongs to {entry.pw_name}", fix)
    for file in _SUBORDINATE:
        for name, first, size in _subordinate(Path(file)):
            if first < ours.stop and ours.start < first + size:
                yield problem("uids", f"{file} assigns {first} and above to {name}", fix)
    if _DYNAMIC.start < ours.stop and ours.start < _DYNAMIC.stop:
        yield problem("uids", "the range overlaps with systemd's dynamic users", fix)


def _subordinate(file: Path) -> Iterator[tuple[str, int, int]]:
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        name, _, numbers = line.strip().partition(":")
        first, _, size = numbers.partition(":")
        if first.isdigit() and size.isdigit():
            yield name, int(first), int(size)


def leftovers(paths: Paths) -> Iterator[Finding]:
    """What a hostd left behind that does not run any more. Its processes and cgroups are not looked
    for: the next `hostctl up` finds them, and adopts or ends them."""
    running = daemon_status(paths.hostd_socket)["pid"] is not None
    yield from or_good(() if running else _markers(paths), "leftovers", "none")


def _markers(paths: Paths) -> Iterator[Finding]:
    """Marker files of a verification whose hostd was killed."""
    places: Iterable[Path] = (
        paths.hostd_state, paths.broker_state, paths.run, paths.etc, paths.log_dir
    )  # fmt: skip
    for path in (path for place in places if place.is_dir() for path in place.iterdir()):
        name = path.name
        if len(name) == 13 and name[0] == "." and not name[1:].strip("0123456789abcdef"):
            yield problem(
                "leftovers", f"{path} is left of a verification", f"rm {path}", path.unlink
            )

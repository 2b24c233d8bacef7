"""Whether a container is sealed: compares what Docker and the kernel say of it with rules. Pure.

The table has a row for each way out of a container, with a reason and the option that closes it.
`attach` prints those options. A security option that the table does not know is refused as well.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from attrs import frozen

from hostd.process.proc import CAPABILITY_SETS, parse_status

_RUNTIMES = ("", "runc", "io.containerd.runc.v2", "crun")
_RUNNING = ("running", "paused", "restarting")
_FILTERED = "2"
_OOM_SCORE = 500  # what the launcher gives to commands
_OPTION = re.compile(r"[a-z-]+(?=[=:]|$)")
_CGROUP = re.compile(r"\d+:[^:]*:(/.*)")
_CONTAINER_GROUP = re.compile(r"(?:.*/)?(?:docker[-/])?([0-9a-f]{64})(?:\.scope)?")


@frozen
class Seal:
    """What one container must have: this network, this uid, the filter of this digest.

    `filter` is None where an earlier version admitted it without noting the digest.
    """

    network: str
    uid: int
    filter: str | None


@frozen
class Mount:
    source: str
    target: str
    read_only: bool


@frozen
class Unsealed:
    """One thing that is wrong, and the option of `docker run` that corrects it."""

    reason: str
    option: str


HostConfig = Mapping[str, Any]


@frozen
class _Rule:
    reason: str
    option: str
    holds: Callable[[HostConfig, Seal], bool]


def _none(*keys: str) -> Callable[[HostConfig, Seal], bool]:
    return lambda host, seal: not any(host.get(key) for key in keys)


def _one_of(key: str, *values: str) -> Callable[[HostConfig, Seal], bool]:
    return lambda host, seal: (host.get(key) or "") in values


def _options(host: HostConfig) -> dict[str, str]:
    """`--security-opt` as name → value; both spellings, `=` and `:`, are Docker's."""
    found: dict[str, str] = {}
    for text in host.get("SecurityOpt") or ():
        named = _OPTION.match(str(text))
        name = named[0] if named else "?"
        found[name] = str(text)[len(name) + 1 :]
    return found


def _no_new_privileges(host: HostConfig, seal: Seal) -> bool:
    return _options(host).get("no-new-privileges") in ("", "true")


def filter_digest(profile: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(profile, sort_keys=True).encode()).hexdigest()


def filter_of(host: HostConfig) -> str | None:
    """The digest of the filter that the container was created with; None without one."""
    try:
        profile = json.loads(_options(host).get("seccomp", ""))
    except ValueError:
        return None
    return filter_digest(profile) if isinstance(profile, dict) else None


def _our_filter(host: HostConfig, seal: Seal) -> bool:
    found = filter_of(host)
    return found is not None and seal.filter in (None, found)


def _known_options(host: HostConfig, seal: Seal) -> bool:
    return set(_options(host)) <= {"no-new-privileges", "seccomp"}


def _drops_all(host: HostConfig, seal: Seal) -> bool:
    return [str(name).upper() for name in host.get("CapDrop") or ()] == ["ALL"]


def _restarts_never(host: HostConfig, seal: Seal) -> bool:
    return (host.get("RestartPolicy") or {}).get("Name", "") in ("", "no")


def _limited(host: HostConfig, seal: Seal) -> bool:
    return (host.get("Memory") or 0) > 0 and (host.get("PidsLimit") or 0) > 0


def _first_victim(host: HostConfig, seal: Seal) -> bool:
    """As commands of our own sandboxes, so that the kernel kills no daemon of the host first."""
    return (host.get("OomScoreAdj") or 0) >= _OOM_SCORE and not host.get("OomKillDisable")


RULES = (
    _Rule("it is privileged", "(without --privileged)", _none("Privileged")),
    _Rule("it has added capabilities", "(without --cap-add)", _none("CapAdd")),
    _Rule("it has capabilities", "--cap-drop ALL", _drops_all),
    _Rule(
        "it may gain privileges",
        "--security-opt no-new-privileges",
        _no_new_privileges,
    ),
    _Rule("its system-call filter is not ours", "--security-opt seccomp={seccomp}", _our_filter),
    _Rule(
        "it has a --security-opt that we do not know",
        "(no other --security-opt)",
        _known_options,
    ),
    _Rule(
        "its network is not the one that was prepared",
        "--network {network}",
        lambda host, seal: host.get("NetworkMode") == seal.network,
    ),
    _Rule("it sees processes that are not its own", "(without --pid)", _one_of("PidMode", "")),
    _Rule("it shares memory with others", "--ipc private", _one_of("IpcMode", "private", "none")),
    _Rule(
        "its users are not mapped as the engine's are",
        "(without --userns)",
        _one_of("UsernsMode", ""),
    ),
    _Rule("it has the host's name", "(without --uts)", _one_of("UTSMode", "")),
    _Rule(
        "its root can be written", "--read-only", lambda host, seal: bool(host["ReadonlyRootfs"])
    ),
    _Rule(
        "it has devices",
        "(without --device, --gpus)",
        _none("Devices", "DeviceRequests", "DeviceCgroupRules"),
    ),
    _Rule("it has volumes of another container", "(without --volumes-from)", _none("VolumesFrom")),
    _Rule("it has further groups", "(without --group-add)", _none("GroupAdd")),
    _Rule(
        "paths of /proc and /sys are not masked",
        "(without systempaths=unconfined)",
        lambda host, seal: bool(host.get("MaskedPaths")) and bool(host.get("ReadonlyPaths")),
    ),
    _Rule("Docker would restart it without us", "--restart no", _restarts_never),
    _Rule("it has no limits", "--memory 4g --pids-limit 4096", _limited),
    _Rule("its runtime is not one we know", "(without --runtime)", _one_of("Runtime", *_RUNTIMES)),
)

# Required only when a container of others is attached: one that an earlier version started or
# attached lacks the option, and is not stopped for that.
ATTACHED = (
    _Rule(
        "it sees the host's groups of processes",
        "--cgroupns private",
        _one_of("CgroupnsMode", "private"),
    ),
    _Rule("it is not ended first where memory is short", "--oom-score-adj 500", _first_victim),
    # They would also apply to the prepared network, and so to the next container in it.
    _Rule("it changes settings of the kernel", "(without --sysctl)", _none("Sysctls")),
)


def unsealed(
    found: Mapping[str, Any], seal: Seal, rules: tuple[_Rule, ...] = RULES
) -> list[Unsealed]:
    """Everything that is wrong by `docker inspect`, in the order of the table."""
    host = found["HostConfig"]
    wrong = [Unsealed(rule.reason, rule.option) for rule in rules if not rule.holds(host, seal)]
    user = f"{seal.uid}:{seal.uid}"
    if found["Config"].get("User") != user:
        wrong.append(Unsealed("its uid is not the sandbox's own", f"--user {user}"))
    return wrong


def strange_mounts(found: Mapping[str, Any], expected: Collection[Mount]) -> list[str]:
    """Targets of bind mounts that were not asked for, or not in this way."""
    binds = [each for each in found.get("Mounts") or () if each.get("Type") != "volume"]
    return [
        str(each.get("Destination"))
        for each in binds
        if each.get("Type") != "tmpfs"
        and Mount(each.get("Source"), each.get("Destination"), not each.get("RW")) not in expected
    ]


def wrong_in_kernel(status: str, uid: int) -> list[str]:
    """What is wrong with the first process by /proc/PID/status, whatever Docker was told."""
    fields = parse_status(status)
    ids = [str(uid)] * 4
    wrong = []
    if fields.get("Uid", "").split() != ids or fields.get("Gid", "").split() != ids:
        wrong.append(f"its uid or gid is not {uid}")
    if not set(fields.get("Groups", "?").split()) <= {str(uid)}:
        wrong.append("it is in further groups")
    if any(int(fields.get(name, "1"), 16) for name in CAPABILITY_SETS):
        wrong.append("it has capabilities")
    if fields.get("NoNewPrivs") != "1":
        wrong.append("it may gain privileges")
    if fields.get("Seccomp") != _FILTERED:
        wrong.append("no system-call filter is in force")
    return wrong


def container_of(cgroups: str) -> str | None:
    """The container that all lines of /proc/PID/cgroup name; None if they differ."""
    paths = [_CGROUP.fullmatch(line) for line in cgroups.splitlines()]
    named = [_CONTAINER_GROUP.fullmatch(path[1]) for path in paths if path]
    found = {each[1] for each in named if each}
    return found.pop() if len(found) == 1 else None


def companions(listed: Collection[Mapping[str, Any]], holder: str, ours: str | None) -> list[str]:
    """Names of running containers in the holder's network, without our own."""
    return [
        (each.get("Names") or ["?"])[0].lstrip("/")
        for each in listed
        if (each.get("HostConfig") or {}).get("NetworkMode") == f"container:{holder}"
        and each.get("Id") != ours
        and each.get("State") in _RUNNING
    ]

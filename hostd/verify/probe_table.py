"""Everything that `hostctl verify` tries from inside a sandbox, as data made from its plan."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from attrs import frozen

from gitmoat.wire.git.receivepack import Command, ObjectId, RefName
from gitmoat.wire.git.repository_name import RepositoryPath
from hostd.sandbox.bwrap import RUN
from hostd.sandbox.plan import Plan
from hostd.verify.probes import ACTIVATION, Probe, allow, deny
from netpolicy.decision import Deny, PushDenied, decide_push, decide_repository
from netpolicy.nftables import GIT_HELPER, GIT_UNTRUSTED, SIDECAR_PORTS
from netpolicy.policy import Tier
from netpolicy.upstreams import Upstream

_U, _H = "untrusted", "helper"
_TIERS = (_U, _H)
_UNKNOWN_HOST = "verify.gitmoat.invalid"
_SYNTHETIC = "198.19.255.254"  # the last that DNS hands out, so probably no name has it
_STREAM, _DATAGRAM, _RAW = (
    int(kind) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW)
)
_INET = int(socket.AF_INET)
_XDP = 44
_NAMESPACES = {"mount": 0x00020000, "network": 0x40000000}
_SESSION_KEYRING = -3

_OUTSIDE = (
    deny("egress", "HTTP over IPv4 leaves", _U, "tcp4", "203.0.113.5", 80),
    deny("egress", "an IPv4 address inside IPv6 leaves", _U, "tcp6", "::ffff:203.0.113.5", 443),
    deny("egress", "QUIC leaves", _U, "udp4", "203.0.113.5", 443),
    deny("egress", "UDP over IPv6 leaves", _U, "udp6", "2001:db8::5", 443),
    deny("egress", "UDP-lite leaves", _U, "udp-lite", "203.0.113.5", 443),
    deny("egress", "link-local IPv6 leaves", _U, "udp6", "fe80::1", 443),
    deny("egress", "multicast leaves", _U, "udp6", "ff02::1", 5353),
    deny("egress", "helper's IPv6 leaves", _H, "tcp6", "2001:db8::5", 443),
    deny("egress", "helper's UDP leaves", _H, "udp4", "203.0.113.5", 443),
    deny("dns", "a resolver outside is asked over TCP", _U, "tcp4", "203.0.113.53", 53),
    deny("dns", "a resolver outside is asked over IPv6", _U, "udp6", "2001:db8::53", 53),
    deny("dns", "helper asks a resolver outside", _H, "udp4", "203.0.113.53", 53),
    deny("dns", "a name that is not allowed has an address", _U, "resolve", _UNKNOWN_HOST),
    deny("metadata", "the metadata address answers over IPv6", _U, "tcp6", "fd00:ec2::254", 80),
    deny("metadata", "another provider's metadata address", _U, "tcp4", "100.100.100.200", 80),
    deny("metadata", "the metadata address answers the helper", _H, "tcp4", "169.254.169.254", 80),
    deny("metadata", "the metadata address through the proxy", _U, "proxy", "169.254.169.254:80"),
    deny("proxy", "an address instead of a name", _U, "proxy", "203.0.113.5:443"),
    deny("proxy", "a number that is an address", _U, "proxy", "3405803781:443"),
    deny("proxy", "the host's loopback", _U, "proxy", "127.0.0.1:22"),
    deny("proxy", "a name that is not allowed", _U, "proxy", f"{_UNKNOWN_HOST}:443"),
    deny("proxy", "a mail port", _U, "proxy", f"{_UNKNOWN_HOST}:25"),
    deny("proxy", "helper uses the proxy", _H, "proxy", f"{_UNKNOWN_HOST}:443"),
    deny("proxy", "TLS to a name that is not allowed", _U, "tls", _SYNTHETIC, 443, _UNKNOWN_HOST),
)
_PORTS = (
    deny(
        "ports", "untrusted reaches 418 at 0.0.0.0", _U, "tcp4", "0.0.0.0", GIT_HELPER, code="N203"
    ),
    deny(
        "ports",
        "untrusted reaches 418 at a synthetic address",
        _U,
        "tcp4",
        _SYNTHETIC,
        GIT_HELPER,
        code="N203",
    ),
    deny(
        "ports",
        "untrusted reaches 418 by mapped IPv4",
        _U,
        "tcp6",
        "::ffff:127.0.0.1",
        GIT_HELPER,
        code="N203",
    ),
    deny("ports", "untrusted reaches 419 over IPv6", _U, "tcp6", "::1", GIT_UNTRUSTED, code="N203"),
    deny("ports", "UDP-lite passes on loopback", _U, "udp-lite", "127.0.0.1", 9999, code="N203"),
)
_SOCKETS = (
    deny("sockets", "raw IP sockets", _U, "socket", _INET, _RAW, 1, code="N205"),
    deny("sockets", "ICMP sockets", _U, "socket", _INET, _DATAGRAM, 1, code="N205"),
    deny("sockets", "XDP sockets", _U, "socket", _XDP, _RAW, 0, code="N205"),
    deny("sockets", "helper's vsock", _H, "socket", 40, _STREAM, 0, code="N205"),
    deny("sockets", "helper's packet sockets", _H, "socket", 17, _RAW, 0, code="N205"),
)
_CALLS = (
    deny("calls", "another process's memory", _U, "own-memory", code="N205"),
    deny("calls", "the kernel's keys", _U, "call", "keyctl", 0, _SESSION_KEYRING, 0, code="N205"),
    deny(
        "calls", "another process's descriptors", _U, "call", "pidfd_getfd", -1, 0, 0, code="N205"
    ),
    deny("calls", "performance events", _U, "call", "perf_event_open", 0, 0, 0, 0, 0, code="N205"),
    deny("calls", "entering a namespace", _U, "call", "setns", -1, 0, code="N205"),
    deny("calls", "helper's io_uring", _H, "call", "io_uring_setup", 1, 0, code="N205"),
    *(
        deny("calls", f"a new {kind} namespace", _U, "unshare", flag, code="N205")
        for kind, flag in _NAMESPACES.items()
    ),
)
_RULES = (
    deny("rules", "untrusted changes the rules", _U, "change-rules", "gitmoat_probe", code="N206"),
    deny("rules", "the helper changes the rules", _H, "change-rules", "gitmoat_probe", code="N206"),
    deny("rules", "untrusted adds an interface", _U, "add-interface", "gmprobe", code="N206"),
    deny("rules", "the helper adds an interface", _H, "add-interface", "gmprobe", code="N206"),
    deny(
        *("rules", "low ports can be opened", _U, "open"),
        *("/proc/sys/net/ipv4/ip_unprivileged_port_start", "write"),
        code="N206",
    ),
)
_FILES = (
    *(
        deny("files", f"{place or '/'} can be written", _U, "create", place, code="N208")
        for place in ("", "/usr", "/etc", RUN)
    ),
    *(
        deny("files", f"the gate's {place or '/'} can be written", _H, "create", place, code="N208")
        for place in ("", "/usr", "/etc", RUN)
    ),
    deny("files", "the kernel's memory", _U, "open", "/proc/kcore", "read", code="N208"),
    deny("files", "an own file becomes setuid", _U, "setuid-file", code="N205"),
)


@frozen
class ProbeInputs:
    """What a sandbox's probes depend on; `marker` stands in files of the host alone."""

    plan: Plan
    marker: str


def all_probes(inputs: ProbeInputs) -> list[Probe]:
    return [
        *ACTIVATION,
        *(*_OUTSIDE, *_PORTS, *_squatting(), *_SOCKETS, *_CALLS, *_RULES, *_FILES),
        *_processes(inputs),
        *_credential(inputs),
        *_git(inputs),
        *_secrets(inputs),
    ]


def _squatting() -> Iterator[Probe]:
    for port in SIDECAR_PORTS:
        for kind, address in (("tcp4", "127.0.0.1"), ("tcp4", "0.0.0.0"), ("tcp6", "::")):
            name = f"port {port} can be taken at {address}"
            yield deny("squatting", name, _U, f"bind-{kind}", address, port, code="N204")
    name = "the resolver's port can be shared"
    yield deny("squatting", name, _U, "bind-udp4", "127.0.0.1", 53, code="N204")


def _uid(inputs: ProbeInputs, tier: str) -> int:
    return inputs.plan.uids.untrusted if tier == _U else inputs.plan.uids.helper


def _processes(inputs: ProbeInputs) -> Iterator[Probe]:
    uids = inputs.plan.uids
    others = {"root": 0, "the sidecar": uids.sidecar}
    for tier in _TIERS:
        own = _uid(inputs, tier)
        yield deny("processes", "it has a privilege", tier, "privileged", own, code="N205")
        yield deny("processes", "it inherits descriptors", tier, "descriptors", 3, code="N205")
        if inputs.plan.runtime == "bwrap":  # where process 1 is ours; else it is the command
            yield deny("processes", "it traces process 1", tier, "trace", 1, code="N205")
            yield deny("processes", "it signals process 1", tier, "signal", 1, code="N205")
            where = ("/proc/1/environ", "read")
            yield deny("processes", "it reads process 1", tier, "open", *where, code="N205")
        name = "it sees processes of other uids"
        yield deny("processes", name, tier, "foreign-processes", own, code="N205")
        other = {"the helper": uids.helper} if tier == _U else {"untrusted": uids.untrusted}
        for who, uid in (others | other).items():
            yield deny("processes", f"it becomes {who}", tier, "become", uid, code="N205")


def _path(upstream: Upstream, repository: RepositoryPath) -> str:
    return f"{upstream.hosts[0]}/{repository.text}.git"


def _credential(inputs: ProbeInputs) -> Iterator[Probe]:
    sockets = f"{RUN}/cred.sock"
    for tier in _TIERS:
        name = "a socket of another uid"
        yield deny("credential", name, tier, "sockets", sockets, _uid(inputs, tier), code="N208")
        name = "an abstract socket of another uid"
        yield deny("credential", name, tier, "abstract", _uid(inputs, tier), code="N208")
    for path in _allowed(inputs, Tier.HELPER)[:1]:
        name = "a token for an allowed repository"
        yield deny("credential", name, _U, "credential", path, code="N209")
        yield allow("credential", name, _H, "credential", path, code="N209")
    for what, path in _unknown(inputs).items():
        for tier in _TIERS:
            yield deny("credential", f"a token for {what}", tier, "credential", path, code="N209")


def _git(inputs: ProbeInputs) -> Iterator[Probe]:
    for tier, port, who in ((_U, GIT_UNTRUSTED, Tier.UNTRUSTED), (_H, GIT_HELPER, Tier.HELPER)):
        for what, path in _unknown(inputs).items():
            yield deny("git", what, tier, "repository", port, path, False, code="N209")
        for path, ref in _denied_refs(inputs, who):
            name, token = f"a push to {ref}", tier == _H
            yield deny("git", name, tier, "push", port, path, ref, token, code="N209")
    helped, seen = _allowed(inputs, Tier.HELPER), _allowed(inputs, Tier.UNTRUSTED)
    for path in helped[:1]:
        name = f"port {GIT_HELPER} without a token"
        yield deny("git", name, _H, "repository", GIT_HELPER, path, False, code="N209")
    for path in [path for path in helped if path not in seen][:1]:
        name = "a repository that is the helper's alone"
        yield deny("git", name, _U, "repository", GIT_UNTRUSTED, path, False, code="N209")


def _repositories(inputs: ProbeInputs) -> list[tuple[Upstream, RepositoryPath]]:
    """Those that the sandbox was made for, and those that its policy names in full."""
    found = [(each.upstream, each.path) for each in inputs.plan.repositories]
    for pattern in (pattern for rule in inputs.plan.policy.git for pattern in rule.repos):
        upstream = inputs.plan.upstreams.by_name(pattern.upstream)
        if upstream is not None and "*" not in pattern.path:
            found.append((upstream, RepositoryPath(pattern.path)))
    return list(dict.fromkeys(found))


def _visible(inputs: ProbeInputs, upstream: Upstream, path: RepositoryPath, tier: Tier) -> bool:
    folds = upstream.case_insensitive
    verdict = decide_repository(inputs.plan.policy, upstream.name, path, tier, folds)
    return not isinstance(verdict, Deny)


def _allowed(inputs: ProbeInputs, tier: Tier) -> list[str]:
    found = _repositories(inputs)
    return [_path(*each) for each in found if _visible(inputs, *each, tier)]


def _unknown(inputs: ProbeInputs) -> dict[str, str]:
    """A git server that is not served; and, at one that is, what no tier may see."""
    name = RepositoryPath("gitmoat-verify/not-in-the-policy")
    found = {"a git server that is not served": f"{_UNKNOWN_HOST}/{name.text}.git"}
    served = inputs.plan.upstreams.upstreams
    if served and not any(_visible(inputs, served[0], name, tier) for tier in Tier):
        found["a repository outside the policy"] = _path(served[0], name)
    return found


def _denied_refs(inputs: ProbeInputs, tier: Tier) -> Iterator[tuple[str, str]]:
    """Refs of the first repository of this tier that it may not create."""
    for upstream, path in _repositories(inputs):
        if _visible(inputs, upstream, path, tier):
            refs = [ref for ref in _REFS if _denied(inputs, upstream, path, tier, ref)]
            yield from ((_path(upstream, path), ref) for ref in refs)
            return


_REFS = ("refs/heads/gitmoat-verify", "refs/tags/gitmoat-verify", "refs/gitmoat/verify")


def _denied(
    inputs: ProbeInputs, upstream: Upstream, path: RepositoryPath, tier: Tier, ref: str
) -> bool:
    nothing, something = ObjectId("0" * 40), ObjectId("1" * 40)
    command = Command(nothing, something, RefName(ref))
    where = (inputs.plan.policy, upstream.name, path, tier, upstream.case_insensitive)
    return isinstance(decide_push(*where, [command]), PushDenied)


def _secrets(inputs: ProbeInputs) -> Iterator[Probe]:
    for tier in _TIERS:
        name = "a marker from the host's own files"
        yield deny("secrets", name, tier, "marker", inputs.marker, code="N208")
        yield deny("secrets", "a token in environment or arguments", tier, "tokens", code="N208")

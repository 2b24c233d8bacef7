"""The ruleset of a sandbox's network namespace: which uid may talk to which sidecar port.

Stateless, and written as positive tests of a socket's creator: a packet of a closed socket has
no uid, so `skuid != X drop` would let it through. Only SYN, SYN-ACK and UDP are judged by uid.
"""

import hashlib
import re
from collections.abc import Sequence
from typing import Final

from attrs import frozen

VERSION: Final = 1
GIT_HELPER: Final = 418
GIT_UNTRUSTED: Final = 419
CONNECT: Final = 480
DNS: Final = 53
HTTP: Final = 80
TLS: Final = 443
SIDECAR_PORTS: Final = (DNS, HTTP, GIT_HELPER, GIT_UNTRUSTED, TLS, CONNECT)
SYNTHETIC: Final = "198.18.0.0/15"

_LARGEST_UID: Final = 2**32 - 2
_COUNTED = re.compile(r"packets [0-9]+ bytes [0-9]+")
_COUNTERS: Final = ("strange_input", "not_lo", "squat", "refused")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_SQUAT: Final = 'counter name "squat" drop'
_REFUSE: Final = 'counter name "refused" reject with icmpx admin-prohibited'
# In IPv6 a connecting socket heeds the ICMP error only at its second SYN, a second later.
_RESET: Final = 'meta nfproto ipv6 meta l4proto tcp counter name "refused" reject with tcp reset'
_LO_OUT: Final = (
    "tcp flags syn / syn,ack goto lo_syn",
    "tcp flags syn,ack / syn,ack tcp sport @sidecar_ports goto lo_synack",
    "meta l4proto tcp accept",
    "meta l4proto udp goto lo_udp",
    "icmp type destination-unreachable accept",
    "icmpv6 type destination-unreachable accept",
    'counter name "refused"',
)


@frozen
class Uids:
    """The three uids of one sandbox: distinct, and none of them root."""

    sidecar: int
    helper: int
    untrusted: int

    def __attrs_post_init__(self) -> None:
        uids = {self.sidecar, self.helper, self.untrusted}
        if len(uids) != 3 or not all(0 < uid <= _LARGEST_UID for uid in uids):
            raise ValueError("a sandbox needs three distinct uids, none of them root")


def render(uids: Uids, policy_digest: str) -> str:
    """The whole ruleset as one transaction, in the spelling in which nft lists it again.

    It is the same for every policy: a sandbox that may reach no host is told so by its sidecar.
    The digest in it says for which policy it was loaded.
    """
    if _DIGEST.fullmatch(policy_digest) is None:
        raise ValueError("not a policy's digest")
    ports = ", ".join(map(str, SIDECAR_PORTS))
    blocks = [
        *(_block(f"counter {name}") for name in _COUNTERS),
        _block("set sidecar_ports", "type inet_service", f"elements = {{ {ports} }}"),
        _hook("input", 'iifname "lo" accept', 'counter name "strange_input"'),
        _hook("forward"),
        _hook("output", 'oifname "lo" goto lo_out', 'counter name "not_lo"'),
        _block("chain lo_out", *_LO_OUT),
        _block("chain lo_syn", *_syn(uids)),
        _block("chain lo_synack", f"meta skuid {uids.sidecar} accept", _SQUAT),
        _block("chain lo_udp", *_udp(uids)),
    ]
    return _head(policy_digest) + "\n\n".join(blocks) + "\n}\n"


def ruleset_hash(text: str) -> str:
    """SHA-256, in hex, of what the rules say: the same for the rendered text and for what
    `nft list ruleset` prints after loading it, whatever the counters have counted."""
    lines = [line for line in text.splitlines() if not line.startswith(("#", "flush "))]
    words = _COUNTED.sub("", " ".join(lines)).split()
    return hashlib.sha256(" ".join(words).encode()).hexdigest()


def _head(policy_digest: str) -> str:
    comment = f'comment "gitmoat ruleset {VERSION}, policy {policy_digest}"'
    return f"# gitmoat\nflush ruleset\ntable inet gitmoat {{\n\t{comment}\n"


def _block(head: str, *lines: str) -> str:
    return "\n".join([f"\t{head} {{", *(f"\t\t{line}" for line in lines), "\t}"])


def _hook(name: str, *lines: str) -> str:
    hook = f"type filter hook {name} priority filter; policy drop;"
    return _block(f"chain {name}", hook, *lines)


def _syn(uids: Uids) -> Sequence[str]:
    """Who may open a connection: the helper to its git port; the untrusted uid to its own ports of
    the sidecar, and to its own servers."""
    untrusted = f"meta skuid {uids.untrusted} accept"
    listeners = [
        f"ip daddr 127.0.0.1 tcp dport {GIT_HELPER} meta skuid {uids.helper} accept",
        f"ip daddr 127.0.0.1 tcp dport {GIT_UNTRUSTED} {untrusted}",
        f"ip daddr 127.0.0.1 tcp dport {{ {DNS}, {CONNECT} }} {untrusted}",
        f"ip daddr {SYNTHETIC} tcp dport {{ {HTTP}, {TLS} }} {untrusted}",
    ]
    own = f"tcp dport != @sidecar_ports {untrusted}"
    return [f"tcp sport @sidecar_ports {_SQUAT}", *listeners, own, _RESET, _REFUSE]


def _udp(uids: Uids) -> Sequence[str]:
    untrusted = f"meta skuid {uids.untrusted} accept"
    return [
        f"udp sport {DNS} meta skuid {uids.sidecar} accept",
        f"udp sport @sidecar_ports {_SQUAT}",
        f"ip daddr 127.0.0.1 udp dport {DNS} {untrusted}",
        f"udp dport != @sidecar_ports {untrusted}",
        _REFUSE,
    ]

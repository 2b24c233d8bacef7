"""Three fresh uids for each sandbox, from the configured range."""

from __future__ import annotations

import pwd
from collections.abc import Collection

from attrs import frozen

from hostd.failures import Failed
from netpolicy.nftables import Uids

_PER_SANDBOX = 3


@frozen
class UidRange:
    base: int
    count: int

    def sandboxes(self) -> int:
        return self.count // _PER_SANDBOX

    def at(self, index: int) -> Uids:
        first = self.base + index * _PER_SANDBOX
        return Uids(sidecar=first, helper=first + 1, untrusted=first + 2)


def next_index(uids: UidRange, last: int, used: Collection[int]) -> int:
    """The first index after the last one given out that no sandbox uses, going round."""
    total = uids.sandboxes()
    for step in range(1, total + 1):
        index = (last + step) % total
        if index not in used:
            return index
    raise Failed(
        "R101",
        "no uids are left for another sandbox",
        fix="remove sandboxes (hostctl ls, hostctl rm) or widen [uids] in hostd.toml",
    )


def check_unnamed(uids: Uids) -> None:
    """A uid that has a name on this host belongs to somebody."""
    for uid in (uids.sidecar, uids.helper, uids.untrusted):
        try:
            entry = pwd.getpwuid(uid)
        except KeyError:
            continue
        raise Failed(
            "R101",
            f"uid {uid} of the sandbox range belongs to {entry.pw_name}",
            fix="choose another [uids] base in hostd.toml",
        )

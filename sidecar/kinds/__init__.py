"""The kinds of request that a sidecar serves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sidecar.kind import AnyKind, Source
from sidecar.kinds.egress import HTTP, TUNNEL
from sidecar.kinds.git import GIT

KINDS: Final[tuple[AnyKind, ...]] = (TUNNEL, HTTP, GIT)


def at(source: Source, kinds: Sequence[AnyKind]) -> tuple[AnyKind, ...]:
    """Those that are served there."""
    return tuple(
        kind for kind in kinds if source.listener in kind.listeners and source.tier in kind.tiers
    )

"""What a sidecar is born with."""

from __future__ import annotations

from attrs import frozen


@frozen
class Inherited:
    """The listening descriptors that hostd made for this sandbox."""

    helper_git: int
    untrusted_git: int
    credential: int
    control: int
    dns_datagrams: int
    dns_conversations: int
    proxy: int
    plain: int
    tls: int

"""Programs of others that rows compare with or measure with: what each is, and where from.

`python -m bench.peers` installs them, packages of the system. What cannot be had is said by
`python -m bench`, which then fails in the end unless told to go without.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from attrs import frozen

ROOT = Path(__file__).parents[1]
_SEARCH = "/usr/sbin:/usr/bin:/sbin:/bin"


@frozen
class Peer:
    """`program` tells whether it is there; `needed` means that nothing can be measured without."""

    name: str
    program: str
    package: str
    needed: bool = False

    @property
    def there(self) -> bool:
        return shutil.which(self.program, path=_SEARCH) is not None


PEERS = (
    Peer("nginx", "nginx", "nginx-core", needed=True),
    Peer("fcgiwrap", "fcgiwrap", "fcgiwrap", needed=True),
    Peer("curl", "curl", "curl", needed=True),
    Peer("wrk", "wrk", "wrk", needed=True),
    Peer("haproxy", "haproxy", "haproxy"),
    Peer("squid", "squid", "squid"),
    Peer("dnsmasq", "dnsmasq", "dnsmasq-base"),
    Peer("gcc", "gcc", "gcc libc6-dev"),
    Peer("docker", "dockerd", "docker.io busybox-static"),
)


def missing(without: Iterable[str] = ()) -> list[Peer]:
    return [peer for peer in PEERS if not peer.there and peer.name not in without]


def available(without: Iterable[str] = ()) -> set[str]:
    return {peer.name for peer in PEERS if peer.there and peer.name not in without}


def main() -> int:
    """Tries each by itself; the run will say which are not there."""
    for peer in missing():
        subprocess.run([str(ROOT / ".ci" / "packages"), *peer.package.split()], check=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())

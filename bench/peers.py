"""Programs of others that rows compare with or measure with: what each is, and where from.

`python -m bench.peers` installs them: packages of the system, and an environment of their own
beside ours, because lint and tests must not depend on it. What cannot be had is said by
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
VENV = ROOT / ".bench" / "venv"
PYTHON = VENV / "bin" / "python"
_SEARCH = f"/usr/sbin:/usr/bin:/sbin:/bin:{VENV}/bin"


@frozen
class Peer:
    """`program` tells whether it is there; `needed` means that nothing can be measured without."""

    name: str
    program: str
    package: str = ""
    pinned: tuple[str, ...] = ()
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
    Peer("mitmproxy", "mitmdump", pinned=("mitmproxy==11.0.2",)),
    Peer("flask", "gunicorn", pinned=("flask==3.1.0", "gunicorn==27.0.0", "requests==2.34.2")),
    Peer("squid", "squid", "squid"),
    Peer("tinyproxy", "tinyproxy", "tinyproxy-bin"),
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
        if peer.package:
            subprocess.run([str(ROOT / ".ci" / "packages"), *peer.package.split()], check=False)
    wanted = [each for peer in missing() for each in peer.pinned]
    if wanted:
        if not PYTHON.exists():
            subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
        print(f"bench: installing {', '.join(wanted)} into {VENV.relative_to(ROOT)}")
        pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        for peer in missing():
            if peer.pinned:
                subprocess.run([*pip, *peer.pinned], check=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())

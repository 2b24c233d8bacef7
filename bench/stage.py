"""Everything that rows need, up and running: upstream, repositories, chains."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from bench import repositories
from bench.authority import make_authority
from bench.chains import flask, gitmoat, haproxy, mitmproxy, nginx
from bench.chains.way import Setting, Way, direct
from bench.peers import PYTHON
from bench.processes import Programs
from bench.rows.gits import Gits
from bench.rows.transfers import Transfers
from bench.upstream import Upstream, start_upstream
from tests.live.instances import Instance

CHAINS = {each.NAME: each for each in (nginx, haproxy, mitmproxy, flask)}
_BOXES = 4


@frozen
class Scale:
    """How much of everything."""

    raw: int = 1 << 30
    large: int = 300  # MiB
    push: int = 136
    objects: int = 60000
    refs: int = 20000
    requests: int = 2000
    seconds: int = 4


QUICK = Scale(raw=256 << 20, large=64, push=32, objects=10000, refs=5000, requests=500, seconds=2)


@frozen
class Stage:
    scale: Scale
    ways: list[Way]
    transfers: Transfers
    gits: Gits
    instance: Instance
    upstream: Upstream


@contextmanager
def open_stage(scale: Scale, peers: Sequence[str], shapes: bool = True) -> Iterator[Stage]:
    """In memory, so that no disk is measured."""
    root = Path(tempfile.mkdtemp(prefix="gm-bench-", dir=_memory()))
    root.chmod(0o755)
    programs = Programs(root)
    try:
        authority = make_authority(root / "tls")
        upstream = start_upstream(programs, authority, root / "upstream", scale.raw)
        source = root
        if shapes:
            made = (scale.large, scale.objects, scale.refs)
            repositories.make_shapes(upstream.repositories, *made)
            source = repositories.make_source(root, scale.push)
        ways = [direct(upstream, root)]
        for name in peers:
            directory = root / name
            directory.mkdir()
            setting = Setting(programs, authority, upstream, directory, PYTHON)
            ways.append(CHAINS[name].start(setting))
        (root / "scratch").mkdir(mode=0o711)
        gits = Gits(root / "scratch", upstream.repositories, source)
        transfers = Transfers.make(root / "transfers", scale.raw)
        with gitmoat.installed(upstream) as instance:
            ways.append(gitmoat.start(instance, upstream, _BOXES))
            yield Stage(scale, ways, transfers, gits, instance, upstream)
    finally:
        programs.stop()
        shutil.rmtree(root, ignore_errors=True)


def _memory() -> str:
    return "/dev/shm" if Path("/dev/shm").is_dir() else tempfile.gettempdir()

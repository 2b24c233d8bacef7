"""Everything that rows need, up and running: upstream, repositories, chains."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from attrs import frozen

from bench import repositories
from bench.authority import make_authority
from bench.chains import gitmoat, haproxy, nginx
from bench.chains.way import IN_MEMORY, Setting, Way, direct
from bench.processes import NotStarted, Programs
from bench.rows.gits import Gits
from bench.rows.transfers import Transfers
from bench.scale import Scale
from bench.upstream import Upstream, start_upstream
from tests.stage.instance import Instance

CHAINS = {each.NAME: each for each in (nginx, haproxy)}
_BOXES = 4


@frozen
class Stage:
    scale: Scale
    ways: list[Way]
    small: list[Way]  # beside them, for small requests alone
    transfers: Transfers
    gits: Gits
    instance: Instance
    upstream: Upstream
    failed: list[str]  # chains that did not start

    @property
    def place(self) -> str:
        """HOST:PORT of the upstream, as URLs name it."""
        return f"localhost:{self.upstream.port}"


@contextmanager
def open_stage(
    scale: Scale, peers: Sequence[str], shapes: bool = True, small: bool = True, smoke: bool = False
) -> Iterator[Stage]:
    """All but our audit is in memory, so that no disk is measured; for a smoke that too.

    `shapes` are the real repositories; `small` adds ways for small requests.
    """
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
        ways, failed = [direct(upstream, root)], list[str]()

        def setting(name: str) -> Setting:
            directory = root / name
            directory.mkdir()
            return Setting(programs, authority, upstream, directory)

        for name in peers:
            try:
                ways.append(CHAINS[name].start(setting(name)))
            except NotStarted as problem:
                print(f"bench: FAILED: {problem}", file=sys.stderr, flush=True)
                failed.append(str(problem))
        (root / "scratch").mkdir(mode=0o711)
        gits = Gits(root / "scratch", upstream.repositories, source)
        transfers = Transfers.make(root / "transfers", scale.raw)
        with ExitStack() as stack:
            where = gitmoat.MEMORY if smoke else gitmoat.DISK
            instance = stack.enter_context(gitmoat.installed(upstream, where))
            ways.append(gitmoat.start(instance, upstream, _BOXES))
            more = []
            if small and not smoke:
                more.append(stack.enter_context(_in_memory(upstream)))
                if nginx.NAME in peers:
                    others = (nginx.FIRST_KEPT, nginx.NONE_KEPT)
                    more += [nginx.start(setting(each.replace(" ", "-")), each) for each in others]
            yield Stage(scale, ways, more, transfers, gits, instance, upstream, failed)
    finally:
        programs.stop()
        shutil.rmtree(root, ignore_errors=True)


@contextmanager
def _in_memory(upstream: Upstream) -> Iterator[Way]:
    """The same once more, with its audit where no disk is waited for."""
    with gitmoat.installed(upstream, gitmoat.MEMORY) as instance:
        yield gitmoat.start(instance, upstream, _BOXES, IN_MEMORY)


def _memory() -> str:
    return "/dev/shm" if Path("/dev/shm").is_dir() else tempfile.gettempdir()

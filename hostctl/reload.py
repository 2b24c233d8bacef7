"""`hostctl reload`: the broker reads its configuration again."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from hostctl.output import Output, need_root

if TYPE_CHECKING:
    from identity.paths import Paths

ABOUT = """\
Makes the broker read broker.toml and broker.d again, whole or not at all.

Running sessions go on. Of hostd.toml the broker's key is read again too; the rest when hostd
starts."""


def arguments(parser: ArgumentParser) -> None:
    pass


def main(args: Namespace, out: Output) -> int:
    need_root("`hostctl reload`")
    from hostctl.brokerfiles import reload_broker
    from identity.paths import Paths

    paths = Paths(args.root)
    reload_broker(paths, out.progress)
    _pin(paths)
    out.result("the broker has read its configuration", {"schema": "gitmoat.reload/1"})
    return 0


def _pin(paths: Paths) -> None:
    """A hostd that does not run reads its file when it does."""
    from hostctl.client import ask
    from hostctl.failure import Failure

    try:
        ask(paths.hostd_socket, {"op": "pins"})
    except Failure as failure:
        if failure.code not in ("C103", "C106"):
            raise

"""`hostctl reload`: the broker reads its configuration again."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from hostctl.output import Output, need_root

ABOUT = """\
Makes the broker read broker.toml and broker.d again, whole or not at all.

Running sessions go on. hostd.toml is read when hostd starts."""


def arguments(parser: ArgumentParser) -> None:
    pass


def main(args: Namespace, out: Output) -> int:
    need_root("`hostctl reload`")
    from hostctl.brokerfiles import reload_broker
    from identity.paths import Paths

    reload_broker(Paths(args.root), out.progress)
    out.result("the broker has read its configuration", {"schema": "gitmoat.reload/1"})
    return 0

"""`hostctl version`."""

from __future__ import annotations

from identity.version import VERSION as VERSION

ABOUT = "Prints the version."

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from hostctl.output import Output


def arguments(parser: ArgumentParser) -> None:
    pass


def main(args: Namespace, out: Output) -> int:
    out.result(f"gitmoat {VERSION}", {"schema": "gitmoat.version/1", "version": VERSION})
    return 0

"""`hostctl inspect`: everything about one sandbox."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping

from hostctl.output import Output

ABOUT = "Shows everything about one sandbox."
_MOMENTS = ("created", "expires", "issued", "at")


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("sandbox", metavar="S", help="id or name")


def main(args: Namespace, out: Output) -> int:
    from hostctl.client import ask
    from identity.paths import Paths

    socket = Paths(args.root).hostd_socket
    about = dict(ask(socket, {"op": "inspect", "sandbox": args.sandbox}, out.progress))
    about.pop("schema", None)
    if out.json:
        out.emit({"schema": "gitmoat.inspect/1", **about})
    else:
        show(about, out)
    return 0


def show(about: Mapping[str, object], out: Output) -> None:
    for name, value in flat(about):
        out.line(f"{name + ':':<18} {value}")


def flat(fields: Mapping[str, object], prefix: str = "") -> list[tuple[str, str]]:
    """Nested fields as dotted names, in the order they came."""
    lines: list[tuple[str, str]] = []
    for name, value in fields.items():
        if isinstance(value, Mapping):
            lines += flat(value, f"{prefix}{name}.")
        else:
            lines.append((prefix + name, _text(name, value)))
    return lines


def _text(name: str, value: object) -> str:
    from hostctl.clock import moment_text
    from hostctl.failure import plain

    if name in _MOMENTS:
        return moment_text(value)
    if isinstance(value, list):
        value = " ".join(map(str, value))
    return "-" if value in (None, "") else plain(value)

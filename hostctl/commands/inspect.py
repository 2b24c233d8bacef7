"""`hostctl inspect`: everything about one sandbox."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping

from gitmoat.paths import Paths
from hostctl.control_client import ask
from hostctl.failure import plain
from hostctl.output import Output
from hostctl.terminal.moments import moment_text

ABOUT = """\
Shows everything about one sandbox of this host.

--fleet asks the broker instead, about the session of a sandbox of any host, also of one that has
ended: its state and why, its end, its policy."""
_MOMENTS = ("created", "expires", "issued", "at")


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("sandbox", metavar="S", help="id or name; with --fleet a session's id too")
    parser.add_argument("--fleet", action="store_true", help="the broker's session of it")


def main(args: Namespace, paths: Paths, out: Output) -> int:
    if args.fleet:
        return _session(args.sandbox, paths, out)
    request = {"op": "inspect", "sandbox": args.sandbox}
    about = dict(ask(paths.hostd_socket, request, out.progress))
    about.pop("schema", None)
    if out.json:
        out.emit({"schema": "gitmoat.inspect/1", **about})
    else:
        show(about, out)
    return 0


def _session(name: str, paths: Paths, out: Output) -> int:
    request = {"op": "session-show", "session": name}
    about = dict(ask(paths.broker_admin_socket, request, out.progress))
    if out.json:
        out.emit({"schema": "gitmoat.session-show/1", **about})
        return 0
    policy = about.pop("policy", None)
    show({**about, "policy": policy.get("name") if isinstance(policy, dict) else policy}, out)
    if about.get("state") != "ended":
        out.progress(f"hint: hostctl policy render {about.get('name')} prints what it may do")
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
    if name in _MOMENTS:
        return moment_text(value)
    if isinstance(value, list):
        value = " ".join(map(str, value))
    return "-" if value in (None, "") else plain(value)

"""`hostctl status`: are broker and hostd running?"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from time import time

from gitmoat.paths import Paths
from hostctl.control_client import ask
from hostctl.failure import FAILED, UNREACHABLE, Failure
from hostctl.output import Output

ABOUT = "Tells whether broker and hostd answer (else exit 5) and can work (else exit 1)."


def arguments(parser: ArgumentParser) -> None:
    pass


def main(args: Namespace, paths: Paths, out: Output) -> int:
    broker, hostd = daemon_status(paths.broker_admin_socket), daemon_status(paths.hostd_socket)
    sandboxes = hostd.pop("sandboxes", 0)
    if out.json:
        out.emit(
            {
                "schema": "gitmoat.status/1",
                "broker": broker,
                "hostd": hostd,
                "sandboxes": sandboxes,
            }
        )
    else:
        out.line(_line("broker", broker))
        out.line(_line("hostd", hostd, "1 sandbox" if sandboxes == 1 else f"{sandboxes} sandboxes"))
    if broker["healthy"] and hostd["healthy"]:
        return 0
    if broker["pid"] is not None and hostd["pid"] is not None:
        return FAILED
    if not out.json and not (broker["healthy"] or hostd["healthy"]):
        out.progress("hint: hostctl up")
    return UNREACHABLE


def daemon_status(socket: Path) -> dict[str, object]:
    """The daemon's own report; `healthy` is false when it does not answer."""
    try:
        answer = ask(socket, {"op": "status"}, timeout=10)
    except Failure as failure:
        if failure.code not in ("C103", "C106"):
            raise
        return {"pid": None, "healthy": False}
    return {"pid": None, "healthy": True, **answer}


def _line(name: str, status: Mapping[str, object], more: str = "") -> str:
    if status["pid"] is None:
        return f"{name:<7} not running"
    wrong = status.get("problems")
    told = "; ".join(map(str, wrong)) if isinstance(wrong, list) else ""
    more = more if status["healthy"] else f"unhealthy: {told}"
    place = str(status.get("address") or "")
    parts = [f"{name:<7} running", f"pid {status['pid']}", place, more, _age(status)]
    return "  ".join(part for part in parts if part)


def _age(status: Mapping[str, object]) -> str:
    """The age of the daemon's key in days, as a reminder to replace it."""
    since = status.get("key_since")
    if not isinstance(since, int):
        return ""
    days = max(0, int(time() - since)) // 86400
    return f"key {days} d old"

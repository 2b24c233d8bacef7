"""`hostctl status`: are broker and hostd running?"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from time import time

from gitmoat.fault import Fault, fault_of
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
    if out.json:
        pass  # both tell what is wrong
    elif broker["pid"] is None and hostd["pid"] is None:
        out.progress("hint: hostctl up")
    elif (lost := no_broker(hostd)) is not None:
        out.progress(f"hint: {lost.fix}")
    if broker["pid"] is None or hostd["pid"] is None:
        return UNREACHABLE
    return FAILED if any(troubles(each) or not each["healthy"] for each in (broker, hostd)) else 0


def daemon_status(socket: Path) -> dict[str, object]:
    """The daemon's own report; `healthy` is false when it does not answer."""
    try:
        answer = ask(socket, {"op": "status"}, timeout=10)
    except Failure as failure:
        if failure.code not in ("C103", "C106"):
            raise
        return {"pid": None, "healthy": False}
    return {"pid": None, "healthy": True, **answer}


def no_broker(hostd: Mapping[str, object]) -> Fault | None:
    """Why hostd gets no answer of the broker, which it has just asked."""
    return fault_of(hostd.get("broker_problem"))


def troubles(status: Mapping[str, object]) -> list[str]:
    """Why this daemon cannot work, in words; empty where it can, or does not run."""
    told = status.get("problems")
    wrong = list(map(str, told)) if isinstance(told, list) else []
    lost = no_broker(status)
    if lost is not None:
        wrong.append(f"{lost.what} ({lost.code})" + (f": {lost.why}" if lost.why else ""))
    return wrong


def _line(name: str, status: Mapping[str, object], more: str = "") -> str:
    if status["pid"] is None:
        return f"{name:<7} not running"
    wrong = troubles(status)
    more = f"unhealthy: {'; '.join(wrong)}" if wrong else more
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

"""`hostctl ls --watch`: what every sandbox does now."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

from gitmoat.paths import Paths
from hostctl.control_client import ask, items_of
from hostctl.failure import Failure
from hostctl.output import Output, need_root
from hostctl.terminal.interrupts import raise_on_signals
from hostctl.terminal.keys import Keys
from hostctl.terminal.moments import ago, until

_HEADER = ("SANDBOX", "NAME", "STATE", "STREAMS", "REQ/MIN", "RATE", "MOVED", "DENIED", "AGE",
           "ENDS", "")  # fmt: skip
_HOME, _CLEAR = "\x1b[H", "\x1b[J"
_QUIT = b"q"
_STEPS = ("B", "KiB", "MiB", "GiB", "TiB")

Row = Mapping[str, object]


def watch(paths: Paths, once: bool, interval: float, out: Output) -> int:
    """Until q or Ctrl-C. A rate needs two samples; with `once` they are one second apart."""
    need_root("`hostctl ls --watch`")
    live = sys.stdout.isatty() and not out.json and not once
    raise_on_signals()
    with Keys(live and sys.stdin.isatty()) as keys:
        return _watch(paths, once, interval, out, live, keys)


def _watch(paths: Paths, once: bool, interval: float, out: Output, live: bool, keys: Keys) -> int:
    before, at = _look(paths), time.monotonic()
    if once:
        time.sleep(1)
    while True:
        seconds = max(0.001, time.monotonic() - at)
        now = _look(paths) if once or seconds >= 1 else before
        _show(now, _rates(before, now, seconds), out, live)
        if once:
            return 0
        before, at = now, time.monotonic()
        if keys.pressed(_QUIT, interval):
            return 0


def _look(paths: Paths) -> Row:
    """The broker's sessions, and the sandboxes of hostd that have none."""
    told = dict(ask(paths.broker_admin_socket, {"op": "top"}))
    items = items_of(told)
    try:
        sandboxes = items_of(ask(paths.hostd_socket, {"op": "ls"}))
    except Failure as failure:
        if failure.code != "C103":
            raise
        sandboxes = []
    created = {str(each.get("sandbox")): each.get("created") for each in sandboxes}
    aged = [
        {**each, "began": created.get(str(each.get("sandbox")), each.get("began"))}
        for each in items
    ]
    known = {str(item.get("sandbox")) for item in items}
    rest = [each for each in sandboxes if str(each.get("sandbox")) not in known]
    return told | {"items": [*aged, *map(_without_session, rest)]}


def _without_session(sandbox: Row) -> Row:
    keys = ("sandbox", "name", "state")
    return {**{key: sandbox.get(key) for key in keys}, "began": sandbox.get("created")}


def _rates(before: Row, now: Row, seconds: float) -> dict[str, tuple[float, float]]:
    """Requests a minute and bytes a second of each session, between two samples."""
    earlier = {str(row.get("session")): row for row in items_of(before)}
    found = {}
    for row in items_of(now):
        name = str(row.get("session"))
        old = earlier.get(name, row)
        asked = _number(row, "requests") - _number(old, "requests")
        moved = _number(row, "bytes") - _number(old, "bytes")
        found[name] = (asked * 60 / seconds, moved / seconds)
    return found


def _number(row: Row, key: str) -> int:
    value = row.get(key)
    return value if isinstance(value, int) else 0


def _show(look: Row, rates: dict[str, tuple[float, float]], out: Output, live: bool) -> None:
    if out.json:
        items = [_with_rates(row, rates) for row in items_of(look)]
        out.emit({"schema": "gitmoat.top/1", **look, "items": items})
        return
    if live:
        print(_HOME + _CLEAR, end="")
    out.line(_summary(look))
    rows = sorted(items_of(look), key=lambda row: (-_number(row, "streams"), str(row.get("name"))))
    out.table(_HEADER, [_row(row, rates) for row in rows])


def _with_rates(row: Row, rates: dict[str, tuple[float, float]]) -> Row:
    asked, moved = rates.get(str(row.get("session")), (0.0, 0.0))
    return {**row, "requests_per_minute": round(asked, 1), "bytes_per_second": int(moved)}


def _summary(look: Row) -> str:
    operations, upstreams = look.get("operations"), look.get("upstreams")
    counts = operations if isinstance(operations, dict) else {}
    states = upstreams if isinstance(upstreams, dict) else {}
    unwell = [f"{name} {state}" for name, state in states.items() if state != "ok"]
    parts = [
        "1 sandbox" if len(items_of(look)) == 1 else f"{len(items_of(look))} sandboxes",
        f"{counts.get('running', 0)} operations, {counts.get('waiting', 0)} waiting",
        f"upstreams: {', '.join(unwell) or 'ok'}",
    ]
    return " · ".join(parts) if sys.stdout.encoding.lower() == "utf-8" else ", ".join(parts)


def _row(row: Row, rates: dict[str, tuple[float, float]]) -> list[object]:
    asked, moved = rates.get(str(row.get("session")), (0.0, 0.0))
    return [
        row.get("sandbox") or "-",
        row.get("name") or "-",
        row.get("state") or "-",
        _number(row, "streams"),
        f"{asked:.0f}",
        f"{octets(moved)}/s",
        octets(_number(row, "bytes")),
        _number(row, "denied"),
        ago(row.get("began")).removesuffix(" ago"),
        until(row.get("expires")).removeprefix("in "),
        "slowed down" if row.get("slowed") is True else "",
    ]


def octets(number: float) -> str:
    for step in _STEPS:
        if number < 1024 or step == _STEPS[-1]:
            break
        number /= 1024
    return f"{number:.0f}{step}" if number >= 10 or step == "B" else f"{number:.1f}{step}"

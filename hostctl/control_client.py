"""A typed client of the two control sockets: JSON lines, descriptors by SCM_RIGHTS.

A request is one line. The answer is any number of progress and event lines, then one that says
"ok" or "error"; an error becomes a Failure here, so callers only see what went well.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gitmoat.control.lines import LineReader, TooLong, object_of
from gitmoat.identity.control_socket import ControlSocketError, connect_control
from hostctl.failure import Failure, NotReached, failure_from, plain
from hostctl.terminal.waiting_line import Waiting

LINE_LIMIT = 8 << 20
_READ = 65536
_QUICK = 60.0
_SERVER_UID = 0
_HOSTD, _BROKER = "hostd", "the broker"
REQUEST_LIMITS = {
    _HOSTD: 1 << 20,
    _BROKER: 256 << 10,
}  # the daemon drops a longer line and does not answer


class Progress(NamedTuple):
    text: str


class Event(NamedTuple):
    name: str
    fields: Mapping[str, object]


class Done(NamedTuple):
    fields: Mapping[str, object]


Message = Progress | Event | Done


def parse_message(line: bytes) -> Message:
    """One line of an answer; raises the Failure that the daemon reports."""
    data = object_of(line)
    if data is None:
        raise failure_from(None)
    if "error" in data:
        raise failure_from(data["error"])
    if "progress" in data:
        return Progress(plain(data["progress"]))
    if "event" in data:
        return Event(str(data["event"]), data)
    if data.get("ok") is True:
        return Done({key: value for key, value in data.items() if key != "ok"})
    raise failure_from(data)


def line_of(message: Mapping[str, object]) -> bytes:
    """UTF-8. A byte of the command line that is not UTF-8 is sent as `\\udcXX` (PEP 383)."""
    text = json.dumps(message, ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace") + b"\n"


class Connection:
    """One request's connection to a daemon."""

    def __init__(self, sock: socket.socket, daemon: str) -> None:
        self._socket = sock
        self._daemon = daemon
        self._reader = LineReader(LINE_LIMIT)

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: Mapping[str, object], descriptors: Sequence[int] = ()) -> None:
        data = line_of(message)
        if len(data) > REQUEST_LIMITS[self._daemon]:
            raise self._too_long(len(data))
        try:
            if descriptors:
                sent = socket.send_fds(self._socket, [data], list(descriptors))
                data = data[sent:]
            if data:
                self._socket.sendall(data)
        except BrokenPipeError:
            pass  # the daemon has refused already; its answer is still to be read
        except OSError as error:
            raise self._gone(error.strerror or "") from None

    def arrived(self) -> list[Message]:
        """Reads once and returns the complete messages; blocks if there is nothing to read."""
        try:
            data = self._socket.recv(_READ)
        except TimeoutError:
            what = f"{self._daemon} does not answer"
            raise Failure("C106", what, fix=_see_log(self._daemon)) from None
        except OSError as error:
            raise self._gone(error.strerror or "") from None
        if not data:
            raise self._gone("it closed the connection")
        try:
            lines = self._reader.feed(data)
        except TooLong:
            what = "the daemon's answer is too long"
            raise Failure("C107", what, fix="see its log file") from None
        return [parse_message(line) for line in lines]

    def finish(self, on_progress: Callable[[str], None]) -> Mapping[str, object]:
        """Waits for the end of the answer; after two seconds a line says what it waits for."""
        waits_for = f"waiting for {self._daemon}"
        while True:
            with Waiting(waits_for):
                messages = self.arrived()
            for message in messages:
                match message:
                    case Progress(text):
                        on_progress(text)
                        waits_for = text
                    case Done(fields):
                        return fields

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _too_long(self, size: int) -> Failure:
        what = f"the request is too long for {self._daemon}"
        why = f"it has {size} bytes, and at most {REQUEST_LIMITS[self._daemon]} are accepted"
        return Failure("C105", what, why, "send less at once: a shorter command, policy or secret")

    def _gone(self, why: str) -> Failure:
        what = f"{self._daemon} closed the connection before it answered"
        return Failure("C103", what, why, _see_log(self._daemon))


def connect(path: Path, timeout: float | None = _QUICK) -> Connection:
    """Connects to `hostd.sock` or `broker-admin.sock` after checking path and server."""
    daemon = _daemon_of(path)
    try:
        sock = connect_control(path, _SERVER_UID, root=_root_of(path))
    except ControlSocketError as error:
        raise _unreachable(daemon, error.code, error.what, error.fix) from None
    sock.settimeout(timeout)
    return Connection(sock, daemon)


def ask(
    path: Path,
    request: Mapping[str, object],
    on_progress: Callable[[str], None] = lambda text: None,
    timeout: float | None = _QUICK,
) -> Mapping[str, object]:
    """One request, one answer."""
    with connect(path, timeout) as connection:
        connection.send(request)
        return connection.finish(on_progress)


def items_of(answer: Mapping[str, object]) -> list[dict[str, object]]:
    """The list that an `ls` operation answers with."""
    items = answer.get("items")
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _unreachable(daemon: str, code: str, why: str, fix: str) -> NotReached:
    match code:
        case "C103":
            return NotReached(code, f"{daemon} is not running", why, "hostctl up")
        case "C102":
            what = f"not permitted to talk to {daemon}"
            return NotReached(code, what, why, "run hostctl as root")
        case "C104":
            return NotReached("C106", f"{daemon} does not answer", why, _see_log(daemon))
        case _:
            return NotReached(code, f"{daemon}'s control socket is not safe to use", why, fix)


def _root_of(path: Path) -> Path:
    return path.parents[2]  # ROOT/run/gitmoat/NAME.sock


def _daemon_of(path: Path) -> str:
    return _HOSTD if path.name == "hostd.sock" else _BROKER


def _see_log(daemon: str) -> str:
    return f"see var/log/gitmoat/{daemon.removeprefix('the ')}.log"

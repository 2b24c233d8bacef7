"""A stand-in for hostd or the broker's admin socket: real socket, scripted answers.

An operation is a function from a Call to the messages it answers with; `run_locally` is one that
starts the command on this machine with the descriptors it was given, as hostd does in a sandbox.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from gitmoat.identity.control_socket import listen_control
from tests.waiting import PATIENCE

Message = dict[str, Any]


class Call:
    """One request with its connection."""

    def __init__(self, request: Message, descriptors: list[int], sock: socket.socket) -> None:
        self.request = request
        self.descriptors = descriptors
        self.sock = sock

    def send(self, message: Message) -> None:
        self.sock.sendall(json.dumps(message).encode() + b"\n")


Operation = Callable[[Call], Iterable[Message]]


class FakeDaemon:
    """Listens at `path` until closed; remembers what it was asked."""

    def __init__(self, path: Path, operations: Mapping[str, Operation | Message]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.chmod(path.parent, 0o700)
        self.requests: list[Message] = []
        self._operations = dict(operations)
        self._listener = listen_control(path, os.geteuid(), root=path.parents[2])
        self._listener.setblocking(True)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def __enter__(self) -> FakeDaemon:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(PATIENCE)

    def _serve(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(sock,), daemon=True).start()

    def _answer(self, sock: socket.socket) -> None:
        with sock:
            data = b""
            descriptors: list[int] = []
            while not data.endswith(b"\n"):
                piece, fds, _, _ = socket.recv_fds(sock, 1 << 20, 3)
                if not piece:
                    return
                data, descriptors = data + piece, descriptors + fds
            call = Call(json.loads(data), descriptors, sock)
            self.requests.append(call.request)
            try:
                for message in self._messages(call):
                    call.send(message)
            except OSError:
                pass  # the client left
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)

    def _messages(self, call: Call) -> Iterable[Message]:
        operation = self._operations.get(call.request["op"])
        if operation is None:
            return [{"error": {"code": "C105", "what": "unknown operation"}}]
        return operation(call) if callable(operation) else [operation]


def run_locally(call: Call) -> Iterable[Message]:
    """Runs argv with the passed descriptors in a session of its own; forwards signals."""
    stdin, stdout, stderr = call.descriptors
    tty = call.request.get("tty") is True
    process = subprocess.Popen(
        call.request["argv"],
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env={"PATH": "/usr/bin:/bin", **call.request.get("env", {})},
        start_new_session=True,
        preexec_fn=_take_terminal if tty else None,
    )
    threading.Thread(target=_forward_signals, args=(call.sock, process), daemon=True).start()
    if call.request["op"] == "run":
        yield {"progress": "starting"}
        yield {"event": "started", "sandbox": "0123456789ab", "name": "demo"}
    status = process.wait()
    yield {"ok": True, "exit": status if status >= 0 else 128 - status}


def _take_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _forward_signals(sock: socket.socket, process: subprocess.Popen[bytes]) -> None:
    # A client that goes away with answers unread resets the connection.
    with suppress(ConnectionResetError), sock.makefile("rb") as lines:
        for line in lines:
            os.killpg(process.pid, json.loads(line)["signal"])
    if process.poll() is None:
        with suppress(ProcessLookupError):  # it may end at this moment
            os.killpg(process.pid, signal.SIGKILL)

"""Steps at which a test stops hostd: a step of a sandbox's life, once it is on disk.

Only the process that starts hostd can pass the socket of `--failpoints-fd`; no path and no
environment variable sets it, and neither hostctl nor the systemd units pass one. Without it
`reached` does nothing. hostd waits in its only thread until the test lets it go on.
"""

from __future__ import annotations

import socket

from attrs import define, field

_MESSAGE = 256


@define(eq=False)
class Failpoints:
    """The test says `STEP COUNT`: stop when that step is written for the COUNT-th time.

    hostd then answers `STEP SANDBOX` and waits for any message, or for the end of the test.
    A count of 0 takes a point back.
    """

    _socket: socket.socket | None = None
    _armed: dict[str, int] = field(factory=dict, init=False)

    @classmethod
    def of(cls, descriptor: int | None) -> Failpoints:
        if descriptor is None:
            return cls()
        given = socket.socket(fileno=descriptor)
        given.set_inheritable(False)
        if (given.family, given.type) != (socket.AF_UNIX, socket.SOCK_SEQPACKET):
            given.close()
            raise ValueError("failpoints need a SOCK_SEQPACKET socket")
        return cls(given)

    def reached(self, step: str, sandbox: str) -> None:
        if self._socket is None:
            return
        self._hear(self._socket)
        if step not in self._armed:
            return
        self._armed[step] -= 1
        if self._armed[step] == 0:
            del self._armed[step]
            self._stand_still(self._socket, f"{step} {sandbox}")

    def _hear(self, test: socket.socket) -> None:
        while True:
            try:
                message = test.recv(_MESSAGE, socket.MSG_DONTWAIT).decode("ascii")
            except BlockingIOError:
                return
            if not message:
                return
            step, count = message.split()
            self._armed[step] = int(count)
            if self._armed[step] == 0:
                del self._armed[step]

    def _stand_still(self, test: socket.socket, where: str) -> None:
        test.setblocking(True)
        try:
            test.send(where.encode("ascii"))
            test.recv(_MESSAGE)
        except ConnectionError:
            pass

"""hostd's control socket, past its directory: only root's requests are ever looked at."""

from __future__ import annotations

import os
import socket
from typing import Any

import pytest

from hostd.api.admin import AdminConnection, Channel


class Transport:
    """As much of a Unix connection as is used before the first request."""

    def __init__(self, handle: socket.socket) -> None:
        self._handle = handle
        self.closed = False

    def getHandle(self) -> socket.socket:
        return self._handle

    def write(self, data: bytes) -> None:
        pass

    def loseConnection(self) -> None:
        self.closed = True


@pytest.mark.parametrize(("uid", "served"), [(0, True), (12345, False)])
def test_a_request_of_anybody_but_root_is_not_read(uid: int, served: bool) -> None:
    asked: list[dict[str, Any]] = []
    refused: list[int] = []

    async def operation(channel: Channel, body: dict[str, Any]) -> dict[str, Any]:
        asked.append(body)
        return {}

    os.seteuid(uid)
    try:
        near, far = socket.socketpair()  # whose it is, is who makes it
    finally:
        os.seteuid(0)
    with near, far:
        transport: Any = Transport(near)
        connection: Any = AdminConnection({"status": operation}, refused.append)
        connection.makeConnection(transport)
        connection.dataReceived(b'{"op": "status"}\n')
    assert bool(asked) == served
    assert refused == ([] if served else [uid])
    assert transport.closed

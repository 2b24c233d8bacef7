"""A small Unix server that speaks the sidecar's half of git's credential-cache protocol."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from credential_helper.gitcredential import QUIT, CredentialMalformed, Request, RequestReader
from credential_helper.gitcredential import format_answer as format_answer
from tests.waiting import PATIENCE

Answer = Callable[[Request], bytes]


class CredentialServer:
    """Serves one connection after another and remembers what was asked."""

    def __init__(self, path: str, answer: Answer) -> None:
        self.path = path
        self.raw: list[bytes] = []
        self.requests: list[Request] = []
        self._answer = answer
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(4)
        os.chmod(path, 0o666)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with client:
                client.settimeout(PATIENCE)
                self._one(client)

    def _one(self, client: socket.socket) -> None:
        reply = self._reply(client)
        try:
            client.sendall(reply)
        except BrokenPipeError:
            pass  # it did not like us, or the answer

    def _reply(self, client: socket.socket) -> bytes:
        reader = RequestReader()
        whole = b""
        try:
            while piece := client.recv(1000):
                whole += piece
                reader.feed(piece)
            self.raw.append(whole)
            self.requests.append(reader.finish())
        except CredentialMalformed:
            return QUIT
        return self._answer(self.requests[-1])


@contextmanager
def serving(answer: Answer) -> Iterator[CredentialServer]:
    with tempfile.TemporaryDirectory(prefix="gm", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        server = CredentialServer(f"{folder}/cred.sock", answer)
        try:
            yield server
        finally:
            server.close()

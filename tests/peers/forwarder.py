"""What foreign clients of the host connect to: a port that leads to port 419 of a sandbox.

The program runs in the sandbox's network namespace as its untrusted uid; only its listening socket
is of the host. So the clients need not be in the sandbox, and the sidecar sees who it must see.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.stage.boxes import Box
from tests.waiting import end

_PROGRAM = """
import asyncio, socket, sys

async def one_direction(reader, writer):
    try:
        while piece := await reader.read(1 << 16):
            writer.write(piece)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.transport.abort()

async def serve(reader, writer):
    try:
        inside = await asyncio.open_connection("127.0.0.1", 419)
    except OSError:
        writer.transport.abort()
        return
    await asyncio.gather(one_direction(reader, inside[1]), one_direction(inside[0], writer))
    for each in (writer, inside[1]):
        each.close()

async def main():
    server = await asyncio.start_server(serve, sock=socket.socket(fileno=int(sys.argv[1])))
    await server.serve_forever()

asyncio.run(main())
"""


@contextmanager
def forwarder(box: Box) -> Iterator[int]:
    """A port of the host's loopback."""
    seen = box.inspect()
    uid = str(seen["uids"]["untrusted"])
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listening:
        process = subprocess.Popen(
            [
                *("nsenter", f"--net=/proc/{seen['pid']}/ns/net"),
                *("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"),
                *("--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"),
                *("/usr/bin/python3", "-I", "-c", _PROGRAM, str(listening.fileno())),
            ],
            stdin=subprocess.DEVNULL,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            cwd="/",
            pass_fds=(listening.fileno(),),
        )
        port = listening.getsockname()[1]
    try:
        yield port
    finally:
        end(process)

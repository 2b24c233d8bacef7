"""What a hostile sandbox does all day, as programs that run inside it.

Each counts what it has done in `/workspace/count`, so that whoever measures beside it sees that it
was busy all the time. The file has its block from the beginning: a full disk takes none from it.
"""

from __future__ import annotations

from attrs import frozen

IDLE = "idle"
_COUNT = r"""
import mmap, os, signal, socket, subprocess, sys, time
with open("/workspace/count", "wb+") as file:
    file.write(bytes(8))
    file.flush()
    os.fsync(file.fileno())
    counter = mmap.mmap(file.fileno(), 8)

def count():
    counter[:] = (int.from_bytes(counter[:], "little") + 1).to_bytes(8, "little")

def ask(repository):
    target = f"/{sys.argv[1]}/{repository}.git/info/refs?service=git-upload-pack"
    return f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode()

"""
_IDLE = r"""
count()
while True:
    signal.pause()
"""
# fcntl(2), "Leases": whoever opens the file is held in open, or in execve, until the lease is
# given up, or for /proc/sys/fs/lease-break-time. It is kept, and taken again when it was broken.
_LEASE = r"""
import fcntl
signal.signal(signal.SIGIO, signal.SIG_IGN)
with open("/workspace/build.sh", "w") as file:
    file.write("#!/bin/sh\n")
os.chmod("/workspace/build.sh", 0o755)
held = os.open("/workspace/build.sh", os.O_RDONLY)
while True:
    try:
        if fcntl.fcntl(held, fcntl.F_GETLEASE) != fcntl.F_WRLCK:
            fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError:  # it is being opened
        pass
    count()
    time.sleep(0.005)
"""
_STOP = r"""
while True:
    try:
        os.kill(-1, signal.SIGSTOP)
    except ProcessLookupError:  # nobody else is there
        pass
    count()
"""
# Over a few connections that are kept, each with one under way: new ones are 50 a second at most.
_REFUSED = r"""
def connected():
    one = socket.create_connection(("127.0.0.1", 419), 30)
    one.sendall(ask("no/such"))
    return one

sockets = [connected() for _ in range(16)]
begun, sent = time.monotonic(), 0
while True:
    one = sockets.pop(0)
    if one.recv(65536):
        count()
        one.sendall(ask("no/such"))
    else:
        one = connected()
    sockets.append(one)
    sent += 1
    time.sleep(max(0.0, begun + sent / 500 - time.monotonic()))
"""
# A repository that is not there, 404, would be another thing, and does not count.
_BROKEN = r"""
while True:
    with socket.create_connection(("127.0.0.1", 419), 30) as one:
        one.sendall(ask("fake/broken"))
        if b" 404 " not in one.recv(65536)[:16]:
            count()
"""
# What somebody else gives up is taken at once.
_DISK = r"""
piece = 1 << 20
file = os.open("/workspace/fill", os.O_WRONLY | os.O_CREAT)
while True:
    try:
        os.write(file, bytes(piece))
    except OSError:
        piece = max(piece // 2, 512)
        time.sleep(0.0005)
    if piece == 512:
        count()
"""
_FORKS = r"""
while True:
    try:
        os.fork()
    except OSError:
        pass
    count()
"""
_MEMORY = r"""
while True:
    child = os.fork()
    if child == 0:
        held = []
        while True:
            held.append(bytearray(b"x") * (1 << 20))
            count()
    os.waitpid(child, 0)
"""


@frozen
class Load:
    """`options` are of `hostctl run`; `owner` is what its owner runs in it meanwhile, in a loop,
    and gives up, to try again, after `waits` seconds."""

    name: str
    _program: str
    options: tuple[str, ...] = ()
    owner: tuple[str, ...] = ()
    waits: float = 15.0

    def command(self, place: str) -> tuple[str, ...]:
        """`place` is HOST:PORT of the git server."""
        return ("/usr/bin/python3", "-I", "-c", _COUNT + self._program, place)


NOTHING = Load(IDLE, _IDLE)
LOADS = (
    Load("write lease", _LEASE, owner=("/workspace/build.sh",)),
    Load("SIGSTOP", _STOP, owner=("true",), waits=1.0),
    Load("500 refusals/s", _REFUSED),
    Load("broken repository", _BROKEN),
    Load("full disk", _DISK),
    Load("fork bomb", _FORKS, options=("--pids", "256")),
    Load("memory", _MEMORY, options=("--memory", "256m")),
)

"""What the kernel says of a process: status, descriptors, sockets; read from outside."""

from __future__ import annotations

import os
import socket
import struct
from contextlib import suppress
from pathlib import Path

from attrs import frozen


def status(pid: int | str) -> dict[str, str]:
    text = Path(f"/proc/{pid}/status").read_text()
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def namespace(pid: int | str, kind: str) -> int:
    return os.stat(f"/proc/{pid}/ns/{kind}").st_ino


def peak_memory(pid: int) -> int:
    """VmHWM in KiB."""
    return int(status(pid)["VmHWM"].split()[0])


def limits(pid: int) -> dict[str, str]:
    """Soft limits by name."""
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()[1:]
    return {line[:26].strip(): line[26:47].strip() for line in lines}


def descriptors(pid: int) -> dict[int, str]:
    """Number → what the link says, for each open descriptor."""
    folder, found = f"/proc/{pid}/fd", {}
    for name in os.listdir(folder):
        with suppress(FileNotFoundError):  # closed since
            found[int(name)] = os.readlink(f"{folder}/{name}")
    return found


@frozen
class Inet:
    local: tuple[str, int]
    remote: tuple[str, int]
    listening: bool
    uid: int


def inet_sockets(pid: int | str = "self") -> dict[int, Inet]:
    """Inode → TCP or UDP socket, of the network namespace that `pid` is in."""
    found = {}
    for kind, listening in (("tcp", "0A"), ("udp", "07")):
        for line in Path(f"/proc/{pid}/net/{kind}").read_text().splitlines()[1:]:
            words = line.split()
            if words[9] == "0":  # nobody's any more: it waits for its time to pass
                continue
            local, remote = _address(words[1]), _address(words[2])
            found[int(words[9])] = Inet(local, remote, words[3] == listening, int(words[7]))
    return found


def _address(text: str) -> tuple[str, int]:
    address, port = text.split(":")
    return socket.inet_ntoa(struct.pack("<I", int(address, 16))), int(port, 16)


def unix_sockets(pid: int | str = "self") -> dict[int, str]:
    """Inode → path of each Unix socket of that network namespace."""
    found = {}
    for line in Path(f"/proc/{pid}/net/unix").read_text().splitlines()[1:]:
        words = line.split(None, 7)
        found[int(words[6])] = words[7] if len(words) > 7 else ""
    return found


def processes() -> dict[int, str]:
    """Pid → command line of everything that runs."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found[int(entry.name)] = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                pass
    return found


def processes_of(uids: set[int]) -> set[int]:
    found = set()
    for pid in processes():
        try:
            if os.stat(f"/proc/{pid}").st_uid in uids or int(status(pid)["Uid"].split()[0]) in uids:
                found.add(pid)
        except OSError:
            pass
    return found


def processes_in(namespaces: set[int]) -> set[int]:
    """Those that are in one of these network namespaces."""
    found = set()
    for pid in processes():
        try:
            if namespace(pid, "net") in namespaces:
                found.add(pid)
        except OSError:
            pass
    return found

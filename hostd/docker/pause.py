"""The first process of a container: a program of a few instructions, so that nothing of an image
runs before its sandbox is activated.

It ignores SIGCHLD, so that the kernel reaps the orphans that it inherits (wait(2), NOTES), and then
waits. It needs no loader, no library and no file, whatever the image has.
"""

from __future__ import annotations

import hashlib
import io
import os
import struct
import tarfile

_LOADED_AT = 0x400000
_HEADERS = 64 + 56
_MACHINES = {"x86_64": 62, "aarch64": 183}
# struct sigaction: handler SIG_IGN, no flags, no restorer, empty mask.
_IGNORE = struct.pack("<QQQQ", 1, 0, 0, 0)

# rt_sigaction(SIGCHLD, &ignore, NULL, 8); for (;;) pause();
_X86_64 = (
    b"\xbf\x11\x00\x00\x00"  # mov edi, 17
    b"\x48\x8d\x35\x18\x00\x00\x00"  # lea rsi, [rip + 24]: behind the code
    b"\x31\xd2"  # xor edx, edx
    b"\x41\xba\x08\x00\x00\x00"  # mov r10d, 8
    b"\xb8\x0d\x00\x00\x00"  # mov eax, 13
    b"\x0f\x05"  # syscall
    b"\xb8\x22\x00\x00\x00"  # again: mov eax, 34
    b"\x0f\x05"  # syscall
    b"\xeb\xf7"  # jmp again
)
# The same, with ppoll(NULL, 0, NULL, NULL) for the pause that this machine has not.
_AARCH64 = struct.pack(
    "<14I",
    0xD2800220,  # mov x0, 17
    0x100001A1,  # adr x1, 52 bytes on: behind the code
    0xD2800002,  # mov x2, 0
    0xD2800103,  # mov x3, 8
    0xD28010C8,  # mov x8, 134
    0xD4000001,  # svc 0
    0xD2800000,  # again: mov x0, 0
    0xD2800001,  # mov x1, 0
    0xD2800002,  # mov x2, 0
    0xD2800003,  # mov x3, 0
    0xD2800928,  # mov x8, 73
    0xD4000001,  # svc 0
    0x17FFFFFA,  # b again
    0xD503201F,  # nop: the structure begins at a multiple of eight
)
_CODE = {"x86_64": _X86_64, "aarch64": _AARCH64}


def program(machine: str | None = None) -> bytes:
    """A whole ELF file (elf(5)): a header and one loadable segment."""
    machine = machine or os.uname().machine
    body = _CODE[machine] + _IGNORE
    size = _HEADERS + len(body)
    entry = _LOADED_AT + _HEADERS
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", ident, 2, _MACHINES[machine], 1, entry, 64, 0, 0, 64, 56, 1, 64, 0, 0
    )
    loaded = struct.pack("<IIQQQQQQ", 1, 5, 0, _LOADED_AT, _LOADED_AT, size, size, 0x1000)
    return header + loaded + body


def image(machine: str | None = None) -> bytes:
    """A tar with the program alone, for `docker import`."""
    data = program(machine)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        entry = tarfile.TarInfo("pause")
        entry.size, entry.mode = len(data), 0o755
        tar.addfile(entry, io.BytesIO(data))
    return archive.getvalue()


def tag(machine: str | None = None) -> str:
    """The tag is a digest, so that another version's program has another tag."""
    return hashlib.sha256(program(machine)).hexdigest()[:16]

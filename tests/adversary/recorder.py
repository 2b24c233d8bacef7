"""Runs in a sandbox as its command: writes down the uid of everybody who connects.

A planted program says that it ran by connecting to an abstract socket: rooms share no directory
that both uids can write, but they share the network namespace, and abstract names belong to it.
"""

import os
import socket
import struct
import sys

NAME = "\0c"  # two octets, so that a canary stays short: chr(0)+chr(99)


def main(log: str) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(NAME)
    listener.listen(64)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    while True:
        connection, _ = listener.accept()
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        os.write(descriptor, b"%d\n" % struct.unpack("3i", raw)[1])
        connection.close()


if __name__ == "__main__":
    main(sys.argv[1])

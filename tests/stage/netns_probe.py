"""A program, started inside a network namespace, that listens, connects or watches as told.

listen UID ADDRESS PORT...   TCP and UDP, sockets created and served by UID; one line per client
ask UID tcp|udp ADDRESS PORT SECONDS one line: how many octets were served, or the error's name
watch INTERFACE              one line: how many frames came in until the input ended
"""

import errno
import os
import selectors
import socket
import sys
from contextlib import suppress

REPLY = b"x" * 3_000_000


def say(*words: object) -> None:
    print(*words, flush=True)


def become(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def created_by(uid: int, address: str, kind: socket.SocketKind) -> socket.socket:
    """A socket whose creator is UID, though root will bind it: rules look at the creator."""
    os.seteuid(uid)
    made = socket.socket(family(address), kind)
    os.seteuid(0)
    return made


def listen(uid: int, address: str, ports: list[int]) -> None:
    watched = selectors.DefaultSelector()
    for port in ports:
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            sock = created_by(uid, address, kind)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, kind is socket.SOCK_STREAM)
            sock.bind((address, port))
            if kind is socket.SOCK_STREAM:
                sock.listen(16)
            watched.register(sock, selectors.EVENT_READ, (kind, port))
    become(uid)
    say("ready")
    while True:
        for key, _ in watched.select():
            assert isinstance(key.fileobj, socket.socket)
            serve(key.fileobj, *key.data)


def serve(sock: socket.socket, kind: socket.SocketKind, port: int) -> None:
    if kind is socket.SOCK_DGRAM:
        data, peer = sock.recvfrom(100)
        say("client", port)
        with suppress(OSError):
            sock.sendto(data, peer)
        return
    connection, _ = sock.accept()
    say("client", port)
    with connection, suppress(OSError):
        connection.settimeout(5)  # of one who is not let through, nobody else waits longer
        connection.sendall(REPLY)


def ask(uid: int, kind: str, address: str, port: int, seconds: float) -> None:
    become(uid)
    sock = socket.socket(
        family(address), socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM
    )
    sock.settimeout(seconds)
    try:
        sock.connect((address, port))
        say(ask_udp(sock) if kind == "udp" else ask_tcp(sock))
    except TimeoutError:
        say("timeout")
    except OSError as error:
        say(errno.errorcode.get(error.errno or 0, str(error)))


def ask_tcp(sock: socket.socket) -> int:
    total = 0
    while data := sock.recv(1 << 16):
        total += len(data)
    return total


def ask_udp(sock: socket.socket) -> int:
    sock.send(b"q")
    return len(sock.recv(100))


def watch(interface: str) -> None:
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    sock.bind((interface, 0))
    say("ready")
    sys.stdin.read()
    sock.setblocking(False)
    frames = 0
    with suppress(BlockingIOError):
        while True:
            _, origin = sock.recvfrom(2048)
            frames += origin[2] != socket.PACKET_OUTGOING
    say(frames)


def main(role: str, *words: str) -> None:
    if role == "listen":
        listen(int(words[0]), words[1], [int(port) for port in words[2:]])
    elif role == "ask":
        ask(int(words[0]), words[1], words[2], int(words[3]), float(words[4]))
    else:
        watch(words[0])


if __name__ == "__main__":
    main(*sys.argv[1:])

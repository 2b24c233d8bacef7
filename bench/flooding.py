"""Everything that the untrusted uid can do at once to its sidecar; runs inside a sandbox."""

FLOOD = r"""
import os, socket, sys, time
HOLD, ROUNDS = int(sys.argv[1]), int(sys.argv[2])

def open_one(port, data):
    sock = socket.socket()
    sock.setblocking(False)
    sock.connect_ex(("127.0.0.1", port))
    try:
        sock.send(data)
    except OSError:
        pass
    return sock

def half_open():
    return [open_one(419, b"GET /") for _ in range(HOLD)]

def connects():
    request = b"CONNECT nowhere.example:443 HTTP/1.1\r\nHost: nowhere.example:443\r\n\r\n"
    for port in (419, 480):
        for _ in range(HOLD // 2):
            open_one(port, request).close()

def refused():
    request = b"GET /git.example.com/no/such.git/info/refs?service=git-upload-pack HTTP/1.1\r\nHost: x\r\n\r\n"
    for _ in range(HOLD // 4):
        open_one(419, request).close()

def credentials():
    for _ in range(HOLD // 4):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.setblocking(False)
            try:
                sock.connect("/run/gitmoat/cred.sock")
                sock.send(b"action=get\n")
            except OSError:
                pass

def questions():
    head = b"\1\0\0\1\0\0\0\0\0\0"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        for number in range(20 * HOLD):
            label = b"%08d" % (number % 3000)
            name = b"\x08" + label + b"\7nowhere\7example\0"
            try:
                sock.sendto(label[-2:] + head + name + b"\0\1\0\1", ("127.0.0.1", 53))
            except OSError:
                pass

child = os.fork()
with open("flood.pid", "a") as pids:
    print(os.getpid(), file=pids)
held = half_open()
print("ready", flush=True)
for number in range(ROUNDS):
    connects()
    refused()
    credentials()
    questions()
    for sock in held:
        sock.close()
    held = half_open()
    time.sleep(0.2)
if child:
    os.wait()
"""  # noqa: E501 - it is one program

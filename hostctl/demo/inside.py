"""What the demo runs inside the sandbox: small Python programs, questions in, JSON out.

Each reads one JSON object from stdin and prints one; nothing secret is ever sent in.
"""

from __future__ import annotations

import base64

# git's credential-cache protocol on the credential socket, unless a token is given; then what the
# git ports answer to the token, and without it.
CREDENTIAL = r"""
import base64, http.client, json, socket, sys
asked = json.load(sys.stdin)
def credential(path):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(5)
        sock.connect("/run/gitmoat/cred.sock")
        sock.sendall(("action=get\nprotocol=http\nhost=127.0.0.1:418\npath=%s\n" % path).encode())
        sock.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := sock.recv(4096):
            answer += piece
    return dict(line.split("=", 1) for line in answer.decode().splitlines() if "=" in line)
def reply(port, token):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    pair = base64.b64encode(("gitmoat:" + (token or "")).encode()).decode()
    headers = {"Authorization": "Basic " + pair} if token else {}
    path = "/" + asked["path"] + "/info/refs?service=git-upload-pack"
    try:
        connection.request("GET", path, None, headers)
        response = connection.getresponse()
        return response.status, response.read(65536).decode("latin-1")
    except OSError as problem:
        return 0, type(problem).__name__
token = asked["token"] if "token" in asked else credential(asked["path"]).get("password")
ports = {str(port): [reply(port, token), reply(port, None)] for port in asked["ports"]}
print(json.dumps({"token": token, "ports": ports}))
"""

# Looks for the given patterns in everything it can read; bounded, and says how much it saw.
SCAN = r"""
import json, os, subprocess, sys
asked = json.load(sys.stdin)
patterns = [pattern.encode() for pattern in asked["patterns"]]
found, seen, total = [], {"files": 0, "processes": 0}, 0
def look(where, data):
    if any(pattern in data for pattern in patterns):
        found.append(where)
def read(path, most=8 << 20):
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY)
        with os.fdopen(descriptor, "rb") as file:
            return file.read(most) or b""
    except OSError:
        return None
for pid in filter(str.isdigit, os.listdir("/proc")):
    seen["processes"] += 1
    for name in ("environ", "cmdline", "mountinfo", "status", "comm"):
        look("/proc/%s/%s" % (pid, name), read("/proc/%s/%s" % (pid, name)) or b"")
canary = os.path.join(os.environ.get("TMPDIR", "/tmp"), "gitmoat-canary")
with open(canary, "wb") as file:
    file.write(patterns[0])
for top, directories, files in os.walk("/"):
    if top == "/":
        directories[:] = [d for d in directories if d not in ("usr", "proc", "sys", "dev")]
    for name in files:
        path = os.path.join(top, name)
        data = read(path) if seen["files"] < 50000 and total < 512 << 20 else None
        if data is not None:
            seen["files"] += 1
            total += len(data)
            look(path, data)
os.unlink(canary)
for command in (["git", "config", "-l", "--show-origin"], ["env"], ["mount"]):
    try:
        done = subprocess.run(command, capture_output=True, timeout=30)
        look(" ".join(command), done.stdout + done.stderr)
    except OSError:
        pass
seen["canary"] = canary in found
print(json.dumps({"found": [where for where in found if where != canary], "seen": seen}))
"""


def spellings(text: str) -> list[str]:
    """The text, and how it looks inside base64 at each of the three alignments, and in hex."""
    raw = text.encode()
    found = [text, raw.hex()]
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + raw).decode("ascii")
        # the first and the last group also depend on what stands before and behind
        found.append(encoded[4 if shift else 0 : -4])
    return found

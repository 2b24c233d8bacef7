"""Small programs that run in a sandbox: a question in JSON on stdin, an answer in JSON out."""

from __future__ import annotations

import base64

# What each attempt to connect gives, and how long it takes.
CONNECT = r"""
import json, socket, sys, time
FAMILY = {"4": socket.AF_INET, "6": socket.AF_INET6}
def attempt(how, host, port):
    if how == "name":
        return socket.getaddrinfo(host, port)
    kind = socket.SOCK_DGRAM if how.startswith("udp") else socket.SOCK_STREAM
    with socket.socket(FAMILY[how[-1]], kind) as sock:
        sock.settimeout(3)
        sock.connect((host, port))
        if kind == socket.SOCK_DGRAM:
            sock.send(b"\0" * 12)
            sock.recv(512)
results = []
for how, host, port in json.load(sys.stdin)["targets"]:
    begun = time.monotonic()
    try:
        attempt(how, host, port)
        error = None
    except OSError as problem:
        error = type(problem).__name__ + ": " + str(problem)
    results.append({"target": [how, host, port], "error": error,
                    "seconds": round(time.monotonic() - begun, 3)})
print(json.dumps({"results": results}))
"""

# git's credential-cache protocol on the credential socket; then, if asked, the token in use.
CREDENTIAL = r"""
import base64, http.client, json, socket, sys
asked = json.load(sys.stdin)
def credential(path):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(5)
        sock.connect("/run/gitmoat/cred.sock")
        lines = ["action=get", "protocol=http", "host=127.0.0.1:418", "path=" + path, ""]
        try:
            sock.sendall("\n".join(lines).encode())
            sock.shutdown(socket.SHUT_WR)
            answer = b""
            while piece := sock.recv(4096):
                answer += piece
        except (BrokenPipeError, ConnectionResetError):
            answer = b""
    return dict(line.split("=", 1) for line in answer.decode().splitlines() if "=" in line)
def status(port, path, token):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    headers = {}
    if token:
        pair = base64.b64encode(("gitmoat:" + token).encode()).decode()
        headers["Authorization"] = "Basic " + pair
    try:
        connection.request("GET", "/" + path + "/info/refs?service=git-upload-pack", None, headers)
        response = connection.getresponse()
        return response.status, response.read(65536).decode("latin-1")
    except OSError as problem:
        return 0, type(problem).__name__
answer = {}
if "credential" in asked:
    answer["credential"] = credential(asked["credential"])
token = asked.get("token") or answer.get("credential", {}).get("password")
for port in asked.get("ports", []):
    answer[str(port)], answer[str(port) + " body"] = status(port, asked["path"], token)
    answer[str(port) + " without"], _ = status(port, asked["path"], None)
print(json.dumps(answer))
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

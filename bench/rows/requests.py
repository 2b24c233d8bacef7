"""Small requests: one after the other over one connection, and many at a time."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from bench.chains.way import Way
from bench.figures import percentile
from bench.processes import cpu_seconds
from bench.rows.transfers import Values

CONCURRENT = 200
CLIENTS = 4
_PATH = "/info/refs?service=git-upload-pack"
# Alone and small, so that it is the same program in and outside of sandboxes.
_ASK = r"""
import json, socket, ssl, sys, time
asked = json.load(sys.stdin)
sock = socket.create_connection((asked["host"], asked["port"]))
sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
if asked["ca"]:
    sock = ssl.create_default_context(cafile=asked["ca"]).wrap_socket(sock, server_hostname=asked["host"])
request, times, size = asked["request"].encode(), [], 0
for _ in range(asked["count"]):
    begun = time.perf_counter()
    sock.sendall(request)
    data = sock.recv(65536)
    while b"\r\n\r\n" not in data:
        data += sock.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        sys.exit(head.decode())
    fields = head.lower()
    if b"content-length:" in fields:
        size = int(fields.split(b"content-length:")[1].split()[0])
        while len(body) < size:
            body += sock.recv(65536)
    else:
        while not body.endswith(b"0\r\n\r\n"):
            body += sock.recv(65536)
    times.append(time.perf_counter() - begun)
print(json.dumps(times))
"""  # noqa: E501 - it is one program


def latency(way: Way, count: int) -> Values:
    """Of a small advertisement over a connection that is kept."""
    target = urlsplit(way.url("fake/small"))
    lines = [f"GET {target.path}{_PATH} HTTP/1.1", f"Host: {target.netloc}", "Accept: */*"]
    lines += [f"Authorization: {way.authorization}"] if way.authorization else []
    asked = {
        "host": target.hostname,
        "port": target.port,
        "ca": str(way.ca) if way.ca else "",
        "request": "\r\n".join([*lines, "", ""]),
        "count": count,
    }
    command = way.words("/usr/bin/python3", "-I", "-c", _ASK)
    pids = way.all_pids()
    before = cpu_seconds(pids)
    done = subprocess.run(
        command, input=json.dumps(asked), capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{way.name}: {done.stderr}")
    used = cpu_seconds(pids) - before
    times = json.loads(done.stdout)[count // 10 :]
    return {
        **({"request: CPU": (used / count * 1000, "ms")} if pids else {}),
        "request p50": (percentile(times, 0.5) * 1000, "ms"),
        "request p99": (percentile(times, 0.99) * 1000, "ms"),
    }


def concurrent(way: Way, seconds: int) -> Values:
    """So many connections, over four sandboxes; no sandbox may have more than 64 of its own."""
    with tempfile.TemporaryDirectory() as directory:
        script = Path(directory, "headers.lua")
        Path(directory).chmod(0o755)
        header = f'wrk.headers["Authorization"] = "{way.authorization}"\n'
        script.write_text(header if way.authorization else "")
        words = ("-t1", f"-c{CONCURRENT // CLIENTS}", f"-d{seconds}s", "--timeout", "30s")
        command = ("wrk", *words, "--latency", "-s", str(script), way.url("fake/small") + _PATH)
        started = [
            subprocess.Popen(
                way.doors[number % len(way.doors)].words(*command),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for number in range(CLIENTS)
        ]
        said = [process.communicate(timeout=120)[0] for process in started]
    return {
        f"{CONCURRENT} at a time": (sum(rate(each) for each in said), "requests/s"),
        f"{CONCURRENT} at a time, p99": (max(slowest(each) for each in said), "ms"),
    }


def rate(said: str) -> float:
    """Requests a second that wrk says; raises when any failed."""
    found = re.search(r"Requests/sec:\s+([0-9.]+)", said)
    if found is None or "Non-2xx" in said or "Socket errors" in said:
        raise RuntimeError(said)
    return float(found[1])


def slowest(said: str) -> float:
    """p99 in milliseconds."""
    found = re.search(r"99%\s+([0-9.]+)(us|ms|s|m)\b", said)
    if found is None:
        raise RuntimeError(said)
    return float(found[1]) * {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60000.0}[found[2]]

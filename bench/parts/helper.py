"""The credential helper as git starts it, Python alone doing nothing, git's own client for the
same socket, and a static C program that asks the same.

All run in the sandbox as the helper's uid, which the sidecar attests; it gives 120 tokens a
minute, so there are few rounds.
"""

from __future__ import annotations

import base64
import json
import subprocess
import tempfile
from pathlib import Path

from bench.chains.gitmoat import hostctl
from bench.chains.way import OURS
from bench.figures import Book
from bench.parts.programs import PYTHON
from hostd.sandbox.environment import gate_git
from tests.stage.instance import Instance

STATIC_C = "static C"
_C = r"""
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
int main(void) {
  char data[16384]; size_t size = 0; ssize_t got;
  memcpy(data, "action=get\n", 11); size = 11;
  while ((got = read(0, data + size, sizeof data - size)) > 0) size += got;
  struct sockaddr_un where = { AF_UNIX, "/run/gitmoat/cred.sock" };
  int link = socket(AF_UNIX, SOCK_STREAM, 0);
  if (connect(link, (struct sockaddr *)&where, sizeof where)) { perror("connect"); return 1; }
  if (write(link, data, size) != (ssize_t)size) return 1;
  shutdown(link, SHUT_WR);
  while ((got = read(link, data, sizeof data)) > 0) if (write(1, data, got) != got) return 1;
  return 0;
}
"""
_RACE = r"""
import base64, json, os, subprocess, sys, time
asked = json.load(sys.stdin)
place = os.memfd_create("static", 0)
os.write(place, base64.b64decode(asked["static"]))
commands = asked["commands"] | {"static": [f"/proc/self/fd/{place}"]}
times = {name: [] for name in commands}
for _ in range(asked["rounds"]):
    for name, command in commands.items():
        begun = time.perf_counter()
        done = subprocess.run(command, input=asked["question"].encode(), capture_output=True, pass_fds=[place])
        times[name].append(time.perf_counter() - begun)
        if name != "python" and b"password=" not in done.stdout:
            sys.exit(f"{name}: {done.stdout!r} {done.stderr!r}")
print(json.dumps(times))
"""  # noqa: E501 - it is one program


def measure(instance: Instance, box: str, place: str, book: Book, rounds: int) -> None:
    """`place` is HOST:PORT of the upstream."""
    about = json.loads(hostctl(instance, "--json", "inspect", box))
    settings = gate_git(about["uids"]["sidecar"])
    (ours,) = (value for value in settings.values() if "credential_helper" in value)
    asked = {
        "static": base64.b64encode(compiled()).decode(),
        "commands": {
            "ours": [*ours.split(), "get"],
            "python": ["/usr/bin/python3", "-IS", "-c", "pass"],
            "cache": ["git", "credential-cache", "--socket", "/run/gitmoat/cred.sock", "get"],
        },
        "question": f"protocol=http\nhost=127.0.0.1:418\npath={place}/fake/small.git\n",
        "rounds": rounds + 1,
    }
    words = ("exec", "-i", "--as", "helper", box, "--", "/usr/bin/python3", "-I", "-c", _RACE)
    times = json.loads(hostctl(instance, *words, stdin=json.dumps(asked)))
    for name, row, way in (
        ("ours", "credential helper", OURS),
        ("python", "credential helper", PYTHON),
        ("static", "credential helper", STATIC_C),
        ("cache", "credential helper: git credential-cache", OURS),
    ):
        for value in times[name][1:]:
            book.add(row, way, "ms", value * 1000)


def compiled() -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        source, program = Path(directory, "ask.c"), Path(directory, "ask")
        source.write_text(_C)
        command = ["gcc", "-O2", "-static", "-s", "-o", str(program), str(source)]
        subprocess.run(command, check=True)
        return program.read_bytes()

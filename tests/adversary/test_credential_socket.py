"""Rows 43, 44 and 48: the credential socket serves the helper's uid and nobody else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections import Counter

from tests.adversary.hostile import Hostile, MakeHostile
from tests.stage.gitmoat import Gitmoat
from tests.stage.probes import CREDENTIAL
from tests.stage.repositories import ALLOWED
from tests.waiting import PATIENCE, eventually

# Says what connecting gives, without asking for anything.
CONNECT = r"""
import json, socket, struct, sys
sock = socket.socket(socket.AF_UNIX)
sock.settimeout(100)
sock.connect("/run/gitmoat/cred.sock")
server = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
try:
    answer = sock.recv(100).decode()
except OSError as problem:
    answer = type(problem).__name__
print(json.dumps({"server": server, "answer": answer}))
"""
UNCHANGED = {"EROFS", "EACCES", "EPERM", "EBUSY", "EXDEV", "EEXIST"}
TAMPER = r"""
import errno, json, os
def tried(act):
    try:
        act()
        return "done"
    except OSError as problem:
        return errno.errorcode[problem.errno]
run, sock = "/run/gitmoat", "/run/gitmoat/cred.sock"
import socket
def squat(path):
    socket.socket(socket.AF_UNIX).bind(path)
print(json.dumps({
    "unlink": tried(lambda: os.unlink(sock)),
    "rename": tried(lambda: os.rename(sock, run + "/other")),
    "rename directory": tried(lambda: os.rename(run, "/run/other")),
    "symlink": tried(lambda: os.symlink("/workspace/x", run + "/x")),
    "link over": tried(lambda: os.link("/workspace/app/README.md", sock)),
    "bind": tried(lambda: squat(run + "/new.sock")),
    "bind beside": tried(lambda: squat("/run/gitmoat.sock")),
    "chmod": tried(lambda: os.chmod(sock, 0o600)),
    "write": tried(lambda: open(run + "/gitconfig", "a")),
    "truncate": tried(lambda: os.truncate(run + "/policy.json", 0)),
    "mkdir": tried(lambda: os.mkdir("/run/x")),
}))
"""


def path_of(stage: Gitmoat) -> str:
    return f"localhost:{stage.upstream.port}/{ALLOWED}.git"


def refusals(stage: Gitmoat) -> Counter[int]:
    """How often each uid was refused, by the audit: a record may stand for several."""
    text = stage.hostctl("--json", "audit", "query").out
    records = [json.loads(line) for line in text.splitlines()]
    found: Counter[int] = Counter()
    for each in records:
        if each["event"] == "peer.refused":
            found[each.get("peer_uid", -1)] += each.get("count", 1)
    return found


def told(stage: Gitmoat, uid: int) -> int:
    return refusals(stage)[uid]


def test_the_untrusted_uid_is_refused_and_written_down(hostile: Hostile, stage: Gitmoat) -> None:
    """Row 43; the helper, by the same program, gets a token."""
    question = {"credential": path_of(stage)}
    assert hostile.box.python(CREDENTIAL, question)["credential"] in ({}, {"quit": "1"})
    answer = hostile.box.python(CREDENTIAL, question, as_helper=True)["credential"]
    assert set(answer) == {"username", "password"}
    eventually(lambda: hostile.untrusted in refusals(stage), "the audit record")
    before = told(stage, hostile.untrusted)
    found = hostile.box.python(CONNECT)
    assert found["answer"] in ("", "quit=1\n", "ConnectionResetError")
    # Refused for who it is, without a word of it; the helper would only be too late.
    eventually(lambda: told(stage, hostile.untrusted) > before, "another")


def test_root_in_the_sandbox_is_refused_and_written_down(hostile: Hostile, stage: Gitmoat) -> None:
    """Row 44: uid 0 is not the helper. It gets there by the host's hands: no other way is known."""
    pid = hostile.box.inspect()["pid"]
    command = ["nsenter", "-t", str(pid), "-m", "-n", "-p", "-i", "-u", "/usr/bin/python3", "-I"]
    asked = json.dumps({"credential": path_of(stage)})
    for program in (CONNECT, CREDENTIAL):
        done = subprocess.run(
            [*command, "-c", program], input=asked, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stderr
        assert "password" not in done.stdout
    eventually(lambda: 0 in refusals(stage), "the audit record")


def test_the_socket_and_its_directory_cannot_be_changed(hostile: Hostile) -> None:
    """Row 48."""
    outcomes = hostile.box.python(TAMPER)
    assert set(outcomes.values()) <= UNCHANGED, outcomes


def test_nobody_takes_the_sockets_place_while_the_sidecar_restarts(
    make_hostile: MakeHostile, stage: Gitmoat
) -> None:
    """Row 48: the command tries all the time, the sidecar is killed again and again."""
    hostile = make_hostile()
    done: list[str] = []
    stop = threading.Event()

    def tamper() -> None:
        while not stop.is_set():
            done.extend(set(hostile.box.python(TAMPER).values()))

    thread = threading.Thread(target=tamper)
    thread.start()
    try:
        for _ in range(2):
            os.kill(hostile.box.sidecar, signal.SIGKILL)
            eventually(lambda: hostile.ls_remote().ran.code == 0, "the gate works again")
    finally:
        stop.set()
        thread.join()
    assert hostile.box.inspect()["sidecar"]["restarts"] == 2
    assert done and set(done) <= UNCHANGED, set(done)
    sidecar = hostile.box.inspect()["uids"]["sidecar"]
    assert hostile.box.python(CONNECT, as_helper=True)["server"] == sidecar


def test_the_helper_speaks_to_the_sidecars_uid_only(hostile: Hostile) -> None:
    """Row 48: a socket of anybody else's gets no request, wherever it is."""
    listen = (
        "import socket; s = socket.socket(socket.AF_UNIX); s.bind('/tmp/c'); s.listen();"
        "c, _ = s.accept(); print(repr(c.recv(100)))"
    )
    ask = (
        "/usr/bin/python3 -IS /helper/credential_helper/__main__.py --socket /tmp/c "
        f"--server-uid {hostile.box.inspect()['uids']['sidecar']} get"
    )
    script = (
        f'rm -f /tmp/c; /usr/bin/python3 -c "{listen}" > /tmp/heard & '
        "until test -S /tmp/c; do sleep 0.05; done; "
        f"printf 'protocol=http\\nhost=127.0.0.1:418\\npath=x\\n' | {ask}; wait; cat /tmp/heard"
    )
    ran = hostile.box.sh(script, as_helper=True)
    assert ran.out == "quit=1\nb''\n"
    assert "the credential socket is served by another uid" in ran.err

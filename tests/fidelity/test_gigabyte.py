"""A gigabyte each way, slow readers and stalled servers: neither hop holds any of it."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.stage.boxes import HOME, Box, Clone, box_maker
from tests.stage.gitmoat import Gitmoat, opened
from tests.stage.kernel_view import peak_memory
from tests.stage.repositories import make_empty, make_large, refs

pytestmark = pytest.mark.long

MIB = 1024
MOST_KIB = 20 * 1024
QUICK = ("-c", "core.compression=0", "-c", "pack.window=0", "-c", "core.bigFileThreshold=1")
POLICY = """\
version = 1
name = "large"
[limits]
push_max = "4GiB"
fetch_max = "4GiB"
git_requests_per_minute = 1000
[[git]]
repos = ["demo:large/*"]
fetch = true
push = { branches = ["**"] }
who = ["helper", "untrusted"]
"""
SLOW = r"""
import json, socket, sys, time

question = json.load(sys.stdin)
body = b"0032want %b\n00000009done\n" % question["commit"].encode()
head = (
    "POST /%s/git-upload-pack HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
    "Content-Type: application/x-git-upload-pack-request\r\nContent-Length: %d\r\n\r\n"
)
sock = socket.socket()
sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
sock.connect(("127.0.0.1", 419))
sock.sendall((head % (question["path"], len(body))).encode() + body)
total, began, rests = 0, time.monotonic(), question["rests"]
while data := sock.recv(65536):
    total += len(data)
    if rests and total > (1 << 20) * (1 + question["rests"] - rests):
        rests -= 1
        time.sleep(question["seconds"])
json.dump({"total": total, "seconds": time.monotonic() - began}, sys.stdout)
"""


@pytest.fixture(scope="module")
def large_stage() -> Iterator[Gitmoat]:
    with opened() as made:
        (made.paths.policies / "large.toml").write_text(POLICY)
        yield made


@pytest.fixture(scope="module")
def commit(large_stage: Gitmoat) -> str:
    return make_large(large_stage, "large/one", MIB)


@pytest.fixture(scope="module")
def large_box(large_stage: Gitmoat) -> Iterator[Box]:
    with box_maker(large_stage) as make:
        yield make("--policy", "large", repo=None)


@contextmanager
def little_memory(box: Box, what: str) -> Iterator[None]:
    """Sidecar and broker peak at most 20 MiB above what they had peaked at before."""
    before = peaks(box)
    yield
    grown = {name: peak - before[name] for name, peak in peaks(box).items()}
    print(f"{what}: VmHWM grew by", ", ".join(f"{k} {v} KiB" for k, v in grown.items()))
    assert max(grown.values()) < MOST_KIB, grown


def peaks(box: Box) -> dict[str, int]:
    status = json.loads(box.stage.hostctl("--json", "status").expect_success("status"))
    pids = {"sidecar": box.sidecar, "broker": status["broker"]["pid"]}
    return {name: peak_memory(pid) for name, pid in pids.items()}


@contextmanager
def stopped_for(pid: int, after: float, seconds: float) -> Iterator[None]:
    """The process stands still for a while, in the middle of what the block does."""

    def stall() -> None:
        time.sleep(after)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)

    thread = threading.Thread(target=stall)
    thread.start()
    yield
    thread.join()


@pytest.fixture(scope="module")
def clone(large_box: Box, large_stage: Gitmoat, commit: str) -> Clone:
    directory, url = f"{HOME}/large", large_stage.url("large/one")
    with little_memory(large_box, "1 GiB fetch"):
        words = ("git", *QUICK, "clone", "-q", "--bare", url, directory)
        large_box.run(*words, timeout=900).expect_success("git clone")
    return Clone(large_box, directory)


def test_a_gigabyte_is_fetched(clone: Clone, commit: str) -> None:
    assert clone.ask("rev-parse", "main") == commit
    size = clone.ask("count-objects", "-v")
    assert int(size.partition("size-pack: ")[2].split()[0]) >= MIB * 1024


def test_a_gigabyte_is_pushed_in_chunks(
    clone: Clone, large_box: Box, large_stage: Gitmoat, commit: str
) -> None:
    make_empty(large_stage, "large/pushed")
    with little_memory(large_box, "1 GiB chunked push"):
        url = large_stage.url("large/pushed")
        clone.git(*QUICK, "push", "-q", url, "main", timeout=900).expect_success("git push")
    assert refs(large_stage, "large/pushed") == {"refs/heads/main": commit}


def fetch_slowly(box: Box, commit: str, rests: int, seconds: float) -> dict[str, Any]:
    path = f"localhost:{box.stage.upstream.port}/large/one.git"
    question = {"commit": commit, "path": path, "rests": rests, "seconds": seconds}
    words = ("exec", "-i", box.name, "--", "/usr/bin/python3", "-I", "-c", SLOW)
    ran = box.stage.hostctl(*words, stdin=json.dumps(question), timeout=900)
    told: dict[str, Any] = json.loads(ran.expect_success("a slow reader"))
    return told


def test_a_slow_reader_is_waited_for(large_box: Box, commit: str) -> None:
    with little_memory(large_box, "1 GiB to a slow reader"):
        told = fetch_slowly(large_box, commit, rests=3, seconds=10)
    assert told["total"] > MIB << 20 and told["seconds"] > 30


def test_an_upstream_that_stands_still_in_a_fetch_is_waited_for(
    large_box: Box, large_stage: Gitmoat, commit: str
) -> None:
    with (
        little_memory(large_box, "1 GiB from an upstream that stalls"),
        stopped_for(large_stage.upstream.pid, after=1, seconds=20),
    ):
        told = fetch_slowly(large_box, commit, rests=1, seconds=2)
    assert told["total"] > MIB << 20 and told["seconds"] > 15


def test_an_upstream_that_stands_still_in_a_push_is_waited_for(
    clone: Clone, large_box: Box, large_stage: Gitmoat, commit: str
) -> None:
    make_empty(large_stage, "large/stalled")
    with (
        little_memory(large_box, "1 GiB to an upstream that stalls"),
        stopped_for(large_stage.upstream.pid, after=3, seconds=20),
    ):
        url = large_stage.url("large/stalled")
        clone.git(*QUICK, "push", "-q", url, "main", timeout=900).expect_success("git push")
    assert refs(large_stage, "large/stalled") == {"refs/heads/main": commit}

"""`hostctl attach`: containers of others are served when they are sealed, and refused when not."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, chdir
from pathlib import Path
from typing import Any

import pytest

from hostd.process.cgroups import find_hierarchies
from tests.docker.attached import Prepared, preparing
from tests.docker.engines import TestEngine, image
from tests.fakes.long_cases import one_in
from tests.stage.boxes import alive
from tests.stage.gitmoat import Gitmoat
from tests.stage.repositories import ALLOWED, refs
from tests.waiting import PATIENCE, eventually

EXAMPLES = Path(__file__).parents[2] / "examples"
# Tries every port of a sidecar and three addresses outside, as fast as it can.
STORM = (
    "n=0; while :; do for t in '127.0.0.1 418' '127.0.0.1 419' '127.0.0.1 480' '127.0.0.1 53'"
    " '203.0.113.5 443' '169.254.169.254 80'; do"
    " if printf 'GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' | timeout 1 nc $t 2>/dev/null |"
    " grep -q HTTP; then"
    ' echo "$t" >> /tmp/answered; fi; done; n=$((n+1)); echo $n > /tmp/rounds; done'
)
CLONE_AND_PUSH = (
    "cd /tmp && git clone -q $0 work && cd work && git checkout -q -b $1 &&"
    " git -c user.name=T -c user.email=t@example.com commit -q --allow-empty -m M &&"
    " git push -q origin $1 && git rev-parse HEAD"
)


@pytest.fixture(scope="module")
def waiting(stage: Gitmoat, engine: TestEngine) -> Iterator[Prepared]:
    """A network for all the containers that are refused."""
    with preparing(stage, engine) as made:
        yield made


@pytest.fixture
def prepared(stage: Gitmoat, engine: TestEngine) -> Iterator[Prepared]:
    with preparing(stage, engine) as made:
        yield made


def test_a_container_with_the_printed_options_is_served(
    prepared: Prepared, engine: TestEngine, stage: Gitmoat
) -> None:
    container = prepared.start()
    url = stage.url(ALLOWED)
    asked = engine.try_docker("exec", container, "sh", "-c", f"timeout 2 git ls-remote {url}")
    assert asked.returncode == 143, "nobody answers before it is attached"
    scope = ("--agent", "--repo", url, "--push", "agent/**", "--ttl", "2h")
    prepared.attach(container, *scope).expect_success("attach")
    commit = engine.docker("exec", container, "sh", "-c", CLONE_AND_PUSH, url, "agent/attached")
    assert refs(stage)["refs/heads/agent/attached"] == commit
    about = prepared.box.inspect()
    assert about["container"] == container
    assert about["state"] == "running"
    assert 7000 < about["session"]["expires"] - time.time() <= 7200


def test_when_the_container_ends_so_does_its_session_and_the_next_can_come(
    prepared: Prepared, engine: TestEngine, stage: Gitmoat
) -> None:
    first = prepared.start()
    prepared.attach(first).expect_success("attach")
    before = prepared.box.inspect()
    engine.docker("rm", "-f", first)
    eventually(lambda: prepared.state() == "prepared", "it waits for another container")
    assert not alive(before["sidecar"]["pid"])
    second = prepared.start()
    prepared.attach(second).expect_success("attach again")
    after = prepared.box.inspect()
    assert after["netns"] == before["netns"]
    assert after["epoch"] > before["epoch"]
    assert after["session"]["id"] != before["session"]["id"]
    assert prepared.box.run("git", "ls-remote", "-q", stage.url(ALLOWED)).code == 0


def test_removing_the_sandbox_leaves_the_container_running_and_unserved(
    prepared: Prepared, engine: TestEngine, stage: Gitmoat
) -> None:
    container = prepared.start()
    prepared.attach(container).expect_success("attach")
    stage.hostctl("rm", "--force", prepared.name).expect_success("rm")
    assert engine.inspect(container)["State"]["Running"]
    url = stage.url(ALLOWED)
    asked = engine.try_docker("exec", container, "sh", "-c", f"timeout 5 git ls-remote {url}")
    assert asked.returncode != 0


REFUSED = [
    ("no-new-privileges", (), "it may gain privileges"),
    ("ALL", (), "it has capabilities"),
    ("--read-only", (), "its root can be written"),
    ("", ("--cap-add", "NET_ADMIN"), "it has added capabilities"),
    ("", ("--privileged",), "it is privileged"),
    ("", ("--pid", "host"), "it sees processes that are not its own"),
    ("private", ("--ipc", "host"), "it shares memory with others"),
    ("", ("--userns", "host"), "its users are not mapped as the engine's are"),
    ("", ("--uts", "host"), "it has the host's name"),
    ("", ("--restart", "always"), "Docker would restart it without us"),
    ("", ("--group-add", "0"), "it has further groups"),
    ("", ("--device", "/dev/null:/dev/extra"), "it has devices"),
    ("", ("--security-opt", "apparmor=unconfined"), "a --security-opt that we do not know"),
    ("", ("--security-opt", "systempaths=unconfined"), "paths of /proc and /sys are not masked"),
    ("4g", (), "it has no limits"),
    ("4096", (), "it has no limits"),
    ("USER", ("--user", "0:0"), "its uid is not the sandbox's own"),
    ("USER", ("--user", "12345:12345"), "its uid is not the sandbox's own"),
    ("SECCOMP", (), "its system-call filter is not ours"),
    ("SECCOMP", ("--security-opt", "seccomp=unconfined"), "its system-call filter is not ours"),
    ("RUN", (), "/run/gitmoat is not mounted read-only in it"),
    ("", ("-v", "/:/host:ro"), "/host"),
    ("", ("-v", "/proc:/host:ro"), "/proc"),
    ("", ("-v", "/sys:/host:ro"), "/sys"),
    ("", ("-v", "/dev:/host"), "/dev"),
    ("", ("-v", "/etc/hostname:/host:ro"), "lies in /etc"),
    ("", ("-v", "/run:/host"), "/run"),
    ("", ("-v", "/root:/host"), "/root"),
    ("", ("-v", "SOCKET:/docker.sock"), "/docker.sock"),
    ("", ("-v", "ENGINE:/engine"), "/engine"),
    ("", ("-v", "STATE:/state"), "/state"),
    ("", ("-v", "HOME:/home"), ".ssh"),
    ("", ("-v", "HOME/.ssh:/keys:ro"), ".ssh holds credentials"),
    ("", ("-v", "HOME/.netrc:/netrc:ro"), ".netrc holds credentials"),
    ("", ("-v", "LINK:/link"), "/link"),
    ("", ("-v", "OTHER:/other"), "is a socket of the host"),
    ("", ("--mount", "type=volume,dst=/v,volume-opt=type=none,volume-opt=o=bind,"
                     "volume-opt=device=/etc"), "/v"),
]  # fmt: skip
# All of them each time. The first ones are file systems of their own below forbidden places.
ALWAYS_REFUSED = [
    ("", ("-v", "/dev/shm:/x"), "/x lies in /dev"),
    ("", ("-v", "/dev/pts:/x"), "/x lies in /dev"),
    ("", ("-v", "/sys/fs/cgroup:/x:ro"), "/x lies in /sys"),
    ("", ("-v", "/sys/fs/cgroup:/sys/fs/cgroup:ro"), "/sys/fs/cgroup lies in /sys"),
    ("", ("-v", "CGROUPS:/x"), "/x lies in /sys"),
    ("", ("-v", "DEEP:/x"), "leads to a socket of the host: /x/below/s"),
    ("", ("-v", "deep:/x"), "leads to a socket of the host: /x/s"),
    ("", ("--cgroupns", "host"), "it sees the host's groups of processes"),
    ("500", (), "it is not ended first where memory is short"),
    ("", ("--sysctl", "net.ipv4.conf.all.route_localnet=1"), "it changes settings of the kernel"),
]


@pytest.fixture(scope="module")
def places(
    tmp_path_factory: pytest.TempPathFactory, engine: TestEngine, stage: Gitmoat
) -> Iterator[dict[str, str]]:
    """What the rows of the table call by upper-case names."""
    home = tmp_path_factory.mktemp("home")
    (home / ".ssh").mkdir()
    (home / ".netrc").touch()
    link = tmp_path_factory.mktemp("link") / "innocent"
    link.symlink_to("/etc")
    other = tmp_path_factory.mktemp("s") / "other"
    deep = tmp_path_factory.mktemp("deep")
    (deep / "below").mkdir()
    deep.chmod(0o755)  # reachable for the container's user
    volume = Path(engine.docker("volume", "create", "deep"))
    volume = Path(engine.docker("volume", "inspect", "-f", "{{.Mountpoint}}", str(volume)))
    sockets = (other, deep / "below" / "s", volume / "s")
    with ExitStack() as stack:
        for path in sockets:
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            with chdir(path.parent):  # the whole path is too long for a socket
                listener.bind(path.name)
            stack.callback(path.unlink)
            path.chmod(0o666)
            listener.listen()
        yield {
            "DEEP": str(deep),
            "CGROUPS": str(find_hierarchies().all()[0]),
            "SOCKET": engine.socket,
            "ENGINE": str(engine.directory),
            "STATE": str(stage.paths.hostd_state),
            "HOME": str(home),
            "LINK": str(link),
            "OTHER": str(other),
        }


def rows(table: Sequence[tuple[str, tuple[str, ...], str]]) -> list[Any]:
    return [pytest.param(*row, id=f"{row[0]}{' '.join(row[1])}") for row in table]


@pytest.mark.parametrize(
    ("without", "more", "reason"), [*one_in(2, rows(REFUSED)), *rows(ALWAYS_REFUSED)]
)
def test_a_container_that_is_not_sealed_is_refused_with_its_reason(
    waiting: Prepared, places: dict[str, str], without: str, more: tuple[str, ...], reason: str
) -> None:
    for name, place in places.items():
        more = tuple(word.replace(name, place) for word in more)
    named = {
        "USER": waiting.options[waiting.options.index("--user") + 1],
        "SECCOMP": next(each for each in waiting.options if each.startswith("seccomp=")),
        "RUN": next(each for each in waiting.options if "target=/run/gitmoat" in each),
    }
    container = waiting.start(without=named.get(without, without), more=more)
    try:
        ran = waiting.attach(container)
        assert ran.code == 1
        assert "R115" in ran.err
        assert reason in ran.err
        assert "--security-opt no-new-privileges" in ran.err, "it says what to start it with"
        assert waiting.state() == "prepared"
    finally:
        waiting.engine.docker("rm", "-f", container)


def test_a_container_elsewhere_is_refused_whatever_it_is_called(
    waiting: Prepared, engine: TestEngine
) -> None:
    sandbox = waiting.box.inspect()["sandbox"]
    container = engine.docker(
        *("run", "-d", "--network=none", "--name", f"gitmoat-{sandbox}"),
        *("--label", f"gitmoat.sandbox={sandbox}", "--entrypoint=/bin/sleep"),
        *(image("busybox"), "600"),
    )
    ran = waiting.attach(container)
    assert (ran.code, "R115" in ran.err) == (1, True)
    assert "hostctl attach --prepare NAME" in ran.err
    engine.docker("rm", "-f", container)
    assert "R116" in waiting.attach("no-such-container").err


def test_a_second_container_in_the_network_is_refused(
    waiting: Prepared, engine: TestEngine
) -> None:
    first, second = waiting.start(), waiting.start()
    ran = waiting.attach(first)
    assert "another container shares the sandbox's network" in ran.err
    for container in (first, second):
        engine.docker("rm", "-f", container)


def test_a_mount_of_an_ordinary_directory_is_no_reason(
    prepared: Prepared, tmp_path: Path, engine: TestEngine
) -> None:
    engine.docker("volume", "create", "plain")
    container = prepared.start(more=("-v", f"{tmp_path}:/work", "-v", "plain:/cache"))
    prepared.attach(container).expect_success("attach")


@pytest.mark.parametrize(
    ("script", "words", "shown"),
    [("docker/run.sh", (), "is served"), ("agent/run.sh", ("git", "log", "--format=%s"), "First")],
)
def test_the_examples_do_what_they_say(
    stage: Gitmoat, engine: TestEngine, script: str, words: tuple[str, ...], shown: str
) -> None:
    name = f"ex-{script.partition('/')[0]}"
    before = set(engine.docker("ps", "-aq").split())
    programs = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
    environment = {
        "PATH": programs,
        "DOCKER_HOST": f"unix://{engine.socket}",
        "GITMOAT_ROOT": str(stage.root),
        "HOME": str(engine.directory),
    }
    try:
        done = subprocess.run(
            ["/bin/sh", str(EXAMPLES / script), name, image("busybox"), stage.url(ALLOWED), *words],
            capture_output=True, env=environment, timeout=PATIENCE, check=False, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert shown in done.stdout
    finally:
        for container in set(engine.docker("ps", "-aq").split()) - before:
            engine.try_docker("rm", "-f", container)
        stage.hostctl("rm", "--force", name)


def _storm(prepared: Prepared, engine: TestEngine, starts: int) -> None:
    """A first process that tries everything gets no answer until it is attached."""
    rounds = 0
    for _ in range(starts):
        container = prepared.start("/bin/sh", "-c", STORM)
        path = Path(f"/proc/{engine.inspect(container)['State']['Pid']}/root/tmp")
        eventually(lambda p=path: (p / "rounds").exists(), "a round of attempts")  # type: ignore[misc]
        rounds += 1
        assert not (path / "answered").exists()
        engine.docker("rm", "-f", container)
    assert rounds == starts
    container = prepared.start("/bin/sh", "-c", STORM)
    prepared.attach(container).expect_success("attach")
    path = Path(f"/proc/{engine.inspect(container)['State']['Pid']}/root/tmp/answered")
    eventually(path.exists, "an answer, now that it is attached")
    assert set(path.read_text().splitlines()) <= {"127.0.0.1 419", "127.0.0.1 480"}


def test_a_first_process_that_connects_in_a_loop_gets_nothing_before_activation(
    prepared: Prepared, engine: TestEngine
) -> None:
    _storm(prepared, engine, 5)


@pytest.mark.long
def test_a_hundred_starts_of_it_get_nothing_either(prepared: Prepared, engine: TestEngine) -> None:
    _storm(prepared, engine, 100)

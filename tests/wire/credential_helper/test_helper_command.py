"""git-credential-gitmoat as git starts it: a bare file under `python3 -IS`."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path

import pytest

from credential_helper import rendezvous
from credential_helper.gitcredential import QUIT, Request
from tests.fakes.credentialserver import CredentialServer, format_answer, serving
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[3]
HELPER = str(ROOT / "credential_helper" / "__main__.py")
ATTRIBUTES = b"protocol=http\nhost=127.0.0.1:418\npath=github.com/acme/app.git\n"
TOKEN = "token-marker-0123"


def granted(request: Request) -> bytes:
    return format_answer("gitmoat", TOKEN)


def refused(request: Request) -> bytes:
    return QUIT


def helper(
    *arguments: str, given: bytes = ATTRIBUTES, program: str = HELPER
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["/usr/bin/python3", "-IS", program, *arguments],
        input=given,
        capture_output=True,
        cwd="/",
        env={},
        timeout=PATIENCE,
        check=False,
    )


def ask(
    server: CredentialServer, *options: str, given: bytes = ATTRIBUTES
) -> tuple[int, bytes, bytes]:
    ended = helper("--socket", server.path, *options, "get", given=given)
    return ended.returncode, ended.stdout, ended.stderr


def test_it_asks_the_sidecar_and_gives_git_the_answer() -> None:
    with serving(granted) as server:
        uid = str(os.geteuid())
        assert ask(server, "--server-uid", uid) == (
            0, f"username=gitmoat\npassword={TOKEN}\n".encode(), b"",
        )  # fmt: skip
        asked = Request("get", "http", "127.0.0.1:418", "github.com/acme/app.git")
        assert server.requests == [asked]


def test_a_refusal_is_a_line_for_people_and_quit_for_git() -> None:
    with serving(refused) as server:
        code, out, err = ask(server)
    assert (code, out) == (1, QUIT)
    assert err.startswith(b"gitmoat: no credential for github.com/acme/app.git: ")
    assert err.count(b"\n") == 1


def test_it_sends_nothing_to_a_server_of_another_uid() -> None:
    with serving(granted) as server:
        code, out, err = ask(server, "--server-uid", "61001")
        assert (code, out) == (1, QUIT) and b"served by another uid" in err
    assert server.raw in ([], [b""])


def test_no_sidecar_is_said_at_once(tmp_path: Path) -> None:
    ended = helper("--socket", str(tmp_path / "none.sock"), "get")
    assert (ended.returncode, ended.stdout) == (1, QUIT)
    assert ended.stderr == b"gitmoat: the sidecar cannot be reached: No such file or directory\n"


def test_it_waits_for_its_turn_behind_others(tmp_path: Path) -> None:
    """Everybody in a sandbox can connect; who fills the backlog must not lock the helper out."""
    path = str(tmp_path / "cred.sock")
    with socket.socket(socket.AF_UNIX) as listener, ExitStack() as crowd:
        listener.bind(path)
        listener.listen(2)
        others = [crowd.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(8)]
        for other in others:
            other.setblocking(False)
        assert any(each.connect_ex(path) == errno.EAGAIN for each in others), "it is full"
        with ThreadPoolExecutor() as pool:
            answer = pool.submit(rendezvous.ask, b"action=get\n", path)
            assert wait([answer], timeout=1).not_done, "it waits"
            crowd.close()  # what they leave in the backlog says nothing, and is over
            said = b""
            while not said:
                accepted, _ = listener.accept()
                with accepted:
                    accepted.settimeout(PATIENCE)
                    if said := accepted.recv(100):
                        accepted.sendall(b"quit=1\n")
            assert answer.result() == b"quit=1\n"
    assert said == b"action=get\n"


@pytest.mark.parametrize(
    "given", [b"", b"protocol=http\n", ATTRIBUTES[:-1], ATTRIBUTES + b"host=x\n",
              ATTRIBUTES.replace(b"acme", b"ac\rme"), ATTRIBUTES + b"x" * 100_000],
)  # fmt: skip
def test_malformed_input_is_not_passed_on(given: bytes) -> None:
    with serving(granted) as server:
        code, out, err = ask(server, given=given)
        assert (code, out) == (1, QUIT) and err.startswith(b"gitmoat: ")
    assert server.raw == []


@pytest.mark.parametrize(
    "answer", [b"", b"username=a\n", b"hello\n", b"x" * 10_000, b"username=a\npassword=b\rc\n"]
)
def test_an_odd_answer_is_not_passed_on(answer: bytes) -> None:
    with serving(lambda request: answer) as server:
        code, out, _ = ask(server)
    assert (code, out) == (1, QUIT)


def test_only_what_was_understood_is_sent() -> None:
    with serving(granted) as server:
        ask(server, given=ATTRIBUTES + b"wwwauth[]=Basic\ncapability[]=state\npassword=old\n")
    assert server.raw == [b"action=get\n" + ATTRIBUTES]


@pytest.mark.parametrize("action", ["store", "erase", "unheard-of"])
def test_there_is_nothing_to_store_or_erase(action: str) -> None:
    with serving(granted) as server:
        ended = helper("--socket", server.path, action)
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
    assert server.raw == []


@pytest.mark.parametrize(
    "arguments",
    [[], ["--server-uid", "get"], ["--server-uid", "x", "get"], ["--server-uid", "-1", "get"],
     ["--socket", "", "get"], ["--token", "x", "get"], ["get", "get"]],
)  # fmt: skip
def test_an_unknown_command_line_is_a_usage_error(arguments: list[str]) -> None:
    ended = helper(*arguments)
    assert ended.returncode == 2 and ended.stderr.startswith(b"usage: ")
    assert ended.stdout == b""


def test_it_runs_from_a_copy_that_nothing_else_is_near(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "credential_helper", tmp_path / "helper" / "credential_helper")
    program = str(tmp_path / "helper" / "credential_helper" / "__main__.py")
    with serving(granted) as server:
        ended = helper("--socket", server.path, "get", program=program)
    assert ended.returncode == 0 and TOKEN.encode() in ended.stdout


def test_it_also_runs_as_a_module() -> None:
    with serving(granted) as server:
        ended = subprocess.run(
            [sys.executable, "-m", "credential_helper", "--socket", server.path, "get"],
            input=ATTRIBUTES, capture_output=True, cwd=ROOT, timeout=PATIENCE, check=False,
        )  # fmt: skip
    assert ended.returncode == 0 and TOKEN.encode() in ended.stdout


def test_it_imports_next_to_nothing() -> None:
    code = (
        "import sys; sys.path.insert(0, '.'); import credential_helper.command; "
        "print(*sorted({n.split('.')[0] for n in sys.modules} - before))"
    )
    ended = subprocess.run(
        ["/usr/bin/python3", "-IS", "-c", f"import sys, os; before = set(sys.modules); {code}"],
        capture_output=True, cwd=ROOT, text=True, timeout=PATIENCE, check=True,
    )  # fmt: skip
    assert ended.stdout.split() == ["_socket", "credential_helper"]

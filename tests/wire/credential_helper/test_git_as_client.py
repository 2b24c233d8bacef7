"""git itself as the client: its built-in cache client and our helper, against one server."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from credential_helper.gitcredential import QUIT, Request
from tests.fakes.credentialserver import CredentialServer, format_answer, serving
from tests.waiting import PATIENCE

HELPER = Path(__file__).parents[3] / "credential_helper" / "__main__.py"
QUESTION = b"protocol=http\nhost=127.0.0.1:418\npath=github.com/acme/app.git\n\n"
ASKED = Request("get", "http", "127.0.0.1:418", "github.com/acme/app.git")


def granted(request: Request) -> bytes:
    return format_answer("gitmoat", "token-marker")


def refused(request: Request) -> bytes:
    return QUIT


def git_credential(action: str, helper: str, given: bytes) -> subprocess.CompletedProcess[bytes]:
    settings = ["credential.helper=", f"credential.helper={helper}", "credential.useHttpPath=true"]
    options = [word for setting in settings for word in ("-c", setting)]
    environment = {
        "PATH": "/usr/bin:/bin",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_TERMINAL_PROMPT": "0",
        "HOME": "/nonexistent",
    }
    return subprocess.run(
        ["/usr/bin/git", *options, "credential", action],
        input=given,
        capture_output=True,
        cwd="/",
        env=environment,
        timeout=PATIENCE,
        check=False,
    )


def cache(server: CredentialServer) -> str:
    return f"cache --socket {server.path}"


def ours(server: CredentialServer) -> str:
    return f"!/usr/bin/python3 -IS {HELPER} --server-uid {os.geteuid()} --socket {server.path}"


def test_gits_own_cache_client_is_understood() -> None:
    with serving(granted) as server:
        ended = git_credential("fill", cache(server), QUESTION)
    assert server.requests == [ASKED]
    assert b"username=gitmoat\npassword=token-marker\n" in ended.stdout


def test_gits_own_cache_client_is_told_to_quit() -> None:
    with serving(refused) as server:
        ended = git_credential("fill", cache(server), QUESTION)
    assert ended.returncode == 128 and b"told us to quit" in ended.stderr


def test_our_helper_gives_git_the_same_answer() -> None:
    with serving(granted) as server:
        ended = git_credential("fill", ours(server), QUESTION)
    assert server.requests == [ASKED]
    assert b"username=gitmoat\npassword=token-marker\n" in ended.stdout


def test_our_helpers_refusal_ends_gits_search_and_is_shown() -> None:
    with serving(refused) as server:
        ended = git_credential("fill", ours(server), QUESTION)
    assert ended.returncode == 128
    assert b"gitmoat: no credential for github.com/acme/app.git" in ended.stderr
    assert b"told us to quit" in ended.stderr


def test_git_approve_and_reject_reach_the_server_as_store_and_erase() -> None:
    with serving(granted) as server:
        whole = QUESTION[:-1] + b"username=gitmoat\npassword=token-marker\n\n"
        git_credential("approve", cache(server), whole)
        git_credential("reject", cache(server), whole)
    assert [request.action for request in server.requests] == ["store", "erase"]
    assert "marker" not in repr(server.requests)


def test_a_question_without_a_path_is_refused() -> None:
    """CVE-2020-11008: a helper must not answer a question that names nothing."""
    with serving(granted) as server:
        for helper in (cache(server), ours(server)):
            given = b"protocol=http\nhost=127.0.0.1:418\n\n"
            ended = git_credential("fill", helper, given)
            assert ended.returncode == 128 and b"marker" not in ended.stdout
    assert server.requests == []

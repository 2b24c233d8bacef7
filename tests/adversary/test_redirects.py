"""Rows 58 to 61: a repository's configuration moves no operation of the gate somewhere else.

Not to a program, not to another repository that the sandbox may use too, not to a listener of the
command's own, and not to a file of the helper's. As before, each exploit is first seen at work.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from attrs import frozen

from tests.adversary.hostile import OTHER, Hostile
from tests.fakes.long_cases import one_in
from tests.stage.repositories import ALLOWED
from tests.waiting import eventually

FETCH = 'git fetch "$URL" "+refs/heads/*:refs/remotes/tried/*" || true\n'
PUSH = 'git push "$URL" "HEAD:refs/heads/ci/tried-$$" || true\n'
# Without the variables that name proxies and exceptions: an attacker drops them as well.
LS = """unset $(env | grep -io '^[a-z]*_proxy='| tr = ' '); git ls-remote "$URL" || true\n"""
# The rewritten form too: what the command's git really asks, and what the gate's would.
BOTH = 'for url in "$URL" "$GATE_URL" "$(git ls-remote --get-url "$URL")"; do\n%s\ndone\n'
EXTERNAL = (
    'git config protocol.ext.allow always\nCOMMAND="ext::sh -c $(printf %s "$CANARY_FILE")"\n'
)
LISTENER = """
import socket
listener = socket.create_server(("127.0.0.1", 9999))
with open("/home/sandbox/captured", "a", buffering=1) as file:
    file.write("ready\\n")
    while True:
        connection, _ = listener.accept()
        file.write("captured\\n")
        connection.close()
"""


@frozen
class Exploit:
    """`effect` is what the control must see: a program ran, another place was asked."""

    name: str
    plant: str
    control: str
    effect: str


EXPLOITS = [
    Exploit(
        "insteadOf to ext",
        EXTERNAL + BOTH % 'git config --add "url.$COMMAND.insteadOf" "$url"',
        LS,
        "executes",
    ),
    Exploit(
        "pushInsteadOf to ext",
        EXTERNAL + BOTH % 'git config --add "url.$COMMAND.pushInsteadOf" "$url"',
        PUSH,
        "executes",
    ),
    Exploit(
        "insteadOf to file and a receivepack",
        BOTH % 'git config --add "url.file:///workspace/evil/x.pushInsteadOf" "$url"\n'
        'git config "remote.$url.receivepack" "$CANARY;"\n',
        PUSH,
        "executes",
    ),
    Exploit(
        "insteadOf to file and an uploadpack",
        BOTH % 'git config --add "url.file:///workspace/evil/x.insteadOf" "$url"\n'
        'git config "remote.$url.uploadpack" "$CANARY;"\n',
        FETCH,
        "executes",
    ),
    Exploit(
        "insteadOf to another repository",
        'git config "url.$GATE_OTHER.insteadOf" "$GATE_URL"\n'
        'git config "url.$(git ls-remote --get-url "$OTHER_URL").insteadOf" "$URL"\n',
        FETCH,
        "redirects",
    ),
    Exploit(
        "pushInsteadOf to another repository",
        'git config "url.$(git ls-remote --get-url "$OTHER_URL").pushInsteadOf" "$URL"\n'
        'git config "url.$GATE_OTHER.pushInsteadOf" "$GATE_URL"\n',
        PUSH,
        "redirects",
    ),
    Exploit(
        "insteadOf to another port",
        BOTH % 'git config --add url.http://127.0.0.1:9999/.insteadOf "$url"',
        LS,
        "captures",
    ),
    Exploit(
        "remote URL url",
        BOTH % 'git config "remote.$url.url" "$(git ls-remote --get-url "$OTHER_URL")"\n'
        'git config "remote.$GATE_URL.url" "$GATE_OTHER"',
        LS,
        "redirects",
    ),
    Exploit(
        "remote URL vcs",
        'mkdir -p "$HOME/bin" && cp "$CANARY_FILE" "$HOME/bin/git-remote-evil"\n'
        + BOTH
        % 'git config "remote.$url.vcs" evil && git config "remote.$url.url" "$url"\n'
        "git config protocol.evil.allow always",
        'PATH="$HOME/bin:$PATH" git ls-remote "$URL" || true',
        "executes",
    ),
    Exploit(
        "remote URL proxy",
        BOTH % 'git config "remote.$url.proxy" http://127.0.0.1:9999',
        LS,
        "captures",
    ),
    Exploit(
        "remote origin in every way",
        'git config remote.origin.url "$(git ls-remote --get-url "$OTHER_URL")"\n'
        'git config remote.origin.pushurl "$GATE_OTHER"\n'
        "git config remote.origin.mirror true\n"
        "git config remote.pushDefault elsewhere && git config push.default matching\n"
        "git config branch.ci/work.remote elsewhere",
        "git ls-remote origin || true",
        "redirects",
    ),
    Exploit(
        "legacy remotes and branches files",
        "rm -rf .git/remotes .git/branches && mkdir .git/remotes .git/branches\n"
        "git remote remove origin\n"
        'printf "URL: %s\\nPush: HEAD:refs/heads/ci/x\\n" "$OTHER_URL" > .git/remotes/origin\n'
        'echo "$OTHER_URL#main" > .git/branches/app',
        "git ls-remote origin || true",
        "redirects",
    ),
    Exploit("http.proxy", "git config http.proxy http://127.0.0.1:9999", LS, "captures"),
    Exploit(
        "http.URL.proxy",
        BOTH % 'git config "http.$url.proxy" http://127.0.0.1:9999\n'
        'git config "http.$url/.proxy" http://127.0.0.1:9999\n'
        'git config "http.http://127.0.0.1:*/.proxy" http://127.0.0.1:9999 || true\n',
        LS,
        "captures",
    ),
    Exploit(
        "proxy with a user, whose password a helper knows",
        "git config http.proxy http://someone@127.0.0.1:9999\n"
        'git config credential.helper "!$CANARY;:"\n'
        'git config credential.http://127.0.0.1:9999.helper "!$CANARY;:"',
        LS,
        "executes",
    ),
    Exploit(
        "a client certificate with a password",
        'git config credential.helper "!$CANARY;:"\n'
        "touch /workspace/evil/cert && git config http.sslCert /workspace/evil/cert\n"
        "git config http.sslCertPasswordProtected true",
        "git ls-remote https://127.0.0.1:9999/x || true",
        "executes",
    ),
    Exploit(
        "cookies that are saved over a file",
        "echo precious > /workspace/evil/victim\n"
        + BOTH
        % 'git config "http.$url.saveCookies" true\n'
        "git config http.saveCookies true && git config http.cookieFile /workspace/evil/victim",
        LS + 'grep -q precious /workspace/evil/victim || eval "$CANARY"',
        "executes",
    ),
    Exploit(
        "curloptResolve",
        "git config http.curloptResolve localhost:9998:127.0.0.1\n"
        'git config --add "url.http://localhost:9999/.insteadOf" "$URL"\n'
        'git config --add "url.http://localhost:9999/.insteadOf" "$GATE_URL"',
        LS,
        "captures",
    ),
    Exploit(
        "headers and authentication",
        BOTH % 'git config "http.$url.extraHeader" "Host: elsewhere"\n'
        "git config http.extraHeader 'Transfer-Encoding: chunked'\n"
        "git config http.followRedirects true && git config http.emptyAuth true\n"
        "git config --add url.http://127.0.0.1:9999/.insteadOf nothing:",
        "git ls-remote nothing: || true",
        "captures",
    ),
]


@pytest.fixture(scope="module")
def listening(hostile: Hostile) -> Iterator[Hostile]:
    begin = 'python3 -c "$1" </dev/null >/dev/null 2>&1 & echo $!'
    pid = hostile.sh(begin, LISTENER).expect_success("a listener")
    eventually((hostile.state / "home" / "captured").exists, "it listens")
    yield hostile
    hostile.sh(f"kill {pid}").expect_success("its end")


def captured(hostile: Hostile) -> int:
    return (hostile.state / "home" / "captured").read_text().count("captured")


def seen(hostile: Hostile, before: int) -> set[str]:
    effects = set()
    if hostile.untrusted in hostile.executions():
        effects.add("executes")
    if f"{OTHER}.git" in hostile.requests():
        effects.add("redirects")
    if captured(hostile) > before:
        effects.add("captures")
    return effects


@pytest.mark.parametrize("exploit", one_in(2, EXPLOITS), ids=lambda exploit: exploit.name)
def test_configuration_of_the_workspace_redirects_nothing(
    listening: Hostile, exploit: Exploit
) -> None:
    listening.plant(exploit.plant)
    before = captured(listening)
    listening.control(exploit.control)
    assert exploit.effect in seen(listening, before), "the exploit does not work at all"
    listening.forget()
    before = captured(listening)
    done = listening.attack()
    assert captured(listening) == before
    assert listening.requests() == {f"{ALLOWED}.git"}
    assert [each.ran.code for each in done] == [0, 0, 0], done

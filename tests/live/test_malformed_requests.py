"""Raw bytes on port 419: what is not exactly a git request is refused and the connection closed."""

from __future__ import annotations

from typing import Any

from tests.stage.boxes import Box
from tests.stage.gitmoat import Gitmoat
from tests.stage.repositories import ALLOWED, reaching_upstream

# For each case: what came back, and whether the server then closed.
PROBE = r"""
import json, socket, sys
def exchange(raw):
    with socket.create_connection(("127.0.0.1", 419), timeout=100) as sock:
        try:
            sock.sendall(raw)
        except OSError:
            pass
        data = b""
        try:
            while piece := sock.recv(65536):
                data += piece
            return data, True
        except ConnectionResetError:
            return data, True
        except TimeoutError:
            return data, False
print(json.dumps([
    [data.decode("latin-1"), closed]
    for data, closed in (exchange(raw.encode("latin-1")) for raw in json.load(sys.stdin))
]))
"""
HOST = "Host: 127.0.0.1:419\r\n"
TARGET = "/{upstream}/" + ALLOWED + ".git/info/refs?service=git-upload-pack"
GET = f"GET {TARGET} HTTP/1.1\r\n"
POST = f"POST {TARGET.replace('info/refs?service=', '')} HTTP/1.1\r\n" + HOST

MALFORMED = {
    "garbage": "\0\x01\x02 hello\r\n\r\n",
    "TLS": "\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
    "HTTP/2 preface": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/1.0": f"GET {TARGET} HTTP/1.0\r\n{HOST}\r\n",
    "HTTP/0.9": "GET /\r\n\r\n",
    "no host": f"{GET}\r\n",
    "two hosts": f"{GET}{HOST}{HOST}\r\n",
    "bare LF": f"{GET}{HOST}\r\n".replace("\r\n", "\n"),
    "folded header": f"{GET}{HOST}X-A: b\r\n c\r\n\r\n",
    "space before colon": f"{GET}Host : x\r\n\r\n",
    "NUL in a header": f"{GET}{HOST}X-A: \0\r\n\r\n",
    "absolute target": GET.replace("GET /", "GET http://127.0.0.1/") + HOST + "\r\n",
    "a body on GET": f"{GET}{HOST}Content-Length: 3\r\n\r\nabc",
    "two lengths": f"{POST}Content-Length: 4\r\nContent-Length: 4\r\n\r\n0000",
    "signed length": f"{POST}Content-Length: +4\r\n\r\n0000",
    "length and chunks": f"{POST}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two codings": f"{POST}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "identity": f"{POST}Transfer-Encoding: identity\r\n\r\n",
    "upgrade": f"{GET}{HOST}Connection: upgrade\r\nUpgrade: h2c\r\n\r\n",
    "unknown expectation": f"{POST}Expect: 200-ok\r\nContent-Length: 4\r\n\r\n0000",
    "long head": f"{GET}{HOST}X-A: {'a' * 20000}\r\n\r\n",
    "many headers": GET + HOST + "X-A: b\r\n" * 80 + "\r\n",
    "lower-case method": f"get {TARGET} HTTP/1.1\r\n{HOST}\r\n",
    "bytes above ASCII": f"GET /{{upstream}}/acme/\xe4pp.git/info/refs HTTP/1.1\r\n{HOST}\r\n",
}
TOO_LARGE = {"long head", "many headers"}
UNSERVED = {
    "percent": f"GET /{{upstream}}/acme%2fapp.git/info/refs HTTP/1.1\r\n{HOST}\r\n",
    "dumb HTTP": f"GET /{{upstream}}/{ALLOWED}.git/objects/info/packs HTTP/1.1\r\n{HOST}\r\n",
    "HEAD file": f"GET /{{upstream}}/{ALLOWED}.git/HEAD HTTP/1.1\r\n{HOST}\r\n",
    "climbing": f"GET /{{upstream}}/{ALLOWED}/../secrets.git/info/refs?service=git-upload-pack"
    f" HTTP/1.1\r\n{HOST}\r\n",
    "double slash": GET.replace("acme/app", "acme//app") + HOST + "\r\n",
    "root": f"GET / HTTP/1.1\r\n{HOST}\r\n",
    "broker's own": f"POST /host/grant HTTP/1.1\r\n{HOST}Content-Length: 0\r\n\r\n",
    "archive": f"POST /{{upstream}}/{ALLOWED}.git/git-upload-archive HTTP/1.1\r\n{HOST}"
    "Content-Length: 0\r\n\r\n",
    "unknown service": GET.replace("upload-pack", "shell") + HOST + "\r\n",
}


def ask(box: Box, stage: Gitmoat, cases: dict[str, str]) -> dict[str, Any]:
    place = f"localhost:{stage.upstream.port}"
    raw = [text.replace("{upstream}", place) for text in cases.values()]
    return dict(zip(cases, box.python(PROBE, raw), strict=True))


def test_malformed_bytes_get_a_400_and_the_connection_is_closed(agent: Box, stage: Gitmoat) -> None:
    before = agent.sidecar
    with reaching_upstream(stage) as requests:
        answers = ask(agent, stage, MALFORMED)
    for name, (answer, closed) in answers.items():
        status = 431 if name in TOO_LARGE else 400
        assert answer.startswith(f"HTTP/1.1 {status} "), (name, answer)
        assert answer.count("HTTP/1.1 ") == 1, name
        assert closed, name
        assert "text/plain" in answer.lower(), name
    assert requests == []
    assert agent.sidecar == before
    agent.run("git", "ls-remote", stage.url(ALLOWED)).expect_success("ls-remote")


def test_what_is_no_git_request_is_not_served(agent: Box, stage: Gitmoat) -> None:
    close = f"{HOST}Connection: close\r\n"
    closing = {name: text.replace(HOST, close) for name, text in UNSERVED.items()}
    with reaching_upstream(stage) as requests:
        answers = ask(agent, stage, closing)
    for name, (answer, _) in answers.items():
        assert answer.startswith(("HTTP/1.1 404 ", "HTTP/1.1 400 ")), (name, answer)
        assert stage.public not in answer
    assert requests == []


def test_nothing_that_follows_a_malformed_request_is_answered(agent: Box, stage: Gitmoat) -> None:
    """The smuggler's hope: an error in front, and a request behind it on the same connection."""
    good = f"{GET}{HOST}Connection: close\r\n\r\n"
    cases = {name: f"{MALFORMED[name]}{good}" for name in ("two hosts", "signed length", "garbage")}
    with reaching_upstream(stage) as requests:
        answers = ask(agent, stage, {**cases, "control": good})
    control, _ = answers.pop("control")
    assert control.startswith("HTTP/1.1 200 ")
    assert [answer.count("HTTP/1.1 ") for answer, _ in answers.values()] == [1, 1, 1]
    assert len(requests) == 1


def test_headers_of_the_sandbox_do_not_reach_the_upstream_or_the_decision(
    agent: Box, stage: Gitmoat
) -> None:
    """A tier, a request id or a credential that the sandbox claims is dropped."""
    claims = (
        "Authorization: Basic Z2l0bW9hdDp4\r\nGitmoat-Tier: helper\r\n"
        "Gitmoat-Request-Id: 0123456789abcdef\r\nX-Forwarded-For: 10.0.0.1\r\nConnection: close\r\n"
    )
    secret = f"{GET.replace('acme/app', 'acme/secrets')}{HOST}{claims}\r\n"
    with reaching_upstream(stage) as requests:
        answers = ask(agent, stage, {"own": f"{GET}{HOST}{claims}\r\n", "secret": secret})
    assert answers["own"][0].startswith("HTTP/1.1 200 ")
    assert answers["secret"][0].startswith("HTTP/1.1 404 ")
    assert "0123456789abcdef" not in answers["secret"][0]
    assert [entry.status for entry in requests] == [200]

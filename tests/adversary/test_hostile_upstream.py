"""Rows 71 and 72: a git server that turned hostile harms nobody, and gets no credential twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from subprocess import Popen

import pytest

from tests.adversary.hostile import Hostile
from tests.adversary.hostile_upstream import HostileUpstream
from tests.adversary.watching import peak_memory
from tests.stage.command import Ran, outcome
from tests.stage.gitmoat import Gitmoat
from tests.stage.repositories import ALLOWED, bare, create_repository, git
from tests.waiting import PATIENCE


@pytest.fixture(scope="module")
def enemy(stage: Gitmoat) -> Iterator[HostileUpstream]:
    """A second upstream with the same credential as the first."""
    server = HostileUpstream(stage.upstream.directory / "tls")
    words = ("--url", f"https://localhost:{server.port}", "--cred", "demo")
    trusted = ("--ca-file", str(stage.paths.etc / "demo-ca.pem"))
    stage.hostctl("upstream", "add", "enemy", *words, *trusted).expect_success("upstream add")
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def endless(stage: Gitmoat, enemy: HostileUpstream) -> Iterator[dict[str, Popen[bytes]]]:
    """Two clones from a server that never comes to an end; begun early, because they take time."""
    url = f"https://localhost:{enemy.port}/evil"
    yield {
        name: stage.begin("run", "--rm", "--repo", f"{url}/{name}.git", "--", "true")
        for name in ("drip", "silent")
    }


def clone(stage: Gitmoat, enemy: HostileUpstream, name: str) -> Ran:
    """The gate clones before the command starts, so the command is never reached."""
    url = f"https://localhost:{enemy.port}/evil/{name}.git"
    return stage.hostctl("run", "--rm", "--repo", url, "--", "echo", "it ran", timeout=PATIENCE)


# What the server does → the code that the admin reads.
ANSWERS = {
    "redirect": "U111",
    "unauthorised": "U102",
    "html": "U104",
    "compressed": "U104",
    "error": "U110",
    "nothing": "G101",
}


@pytest.mark.usefixtures("endless")
@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_a_strange_answer_is_a_clear_refusal(
    stage: Gitmoat, enemy: HostileUpstream, name: str
) -> None:
    before = len(enemy.asked)
    ran = clone(stage, enemy, name)
    assert ran.code == 125
    assert f"({ANSWERS[name]})" in ran.err, ran.err
    assert "it ran" not in ran.out
    assert "\x1b" not in ran.text and "owned" not in ran.text
    asked = [each for each in enemy.asked[before:] if f"/{name}.git/" in each.path]
    assert 1 <= len(asked) <= 2, "no loop"


def test_a_redirect_is_never_followed_with_the_credential(
    stage: Gitmoat, enemy: HostileUpstream
) -> None:
    ran = clone(stage, enemy, "redirect")
    assert "stolen" not in ran.text  # a name that the policy does not allow
    assert not [each for each in enemy.asked if each.path.startswith("/stolen")]


@pytest.mark.parametrize("name", ["spoken", "broken", "climbing"])
def test_what_the_server_says_to_git_does_nothing_to_the_terminal(
    stage: Gitmoat, enemy: HostileUpstream, name: str
) -> None:
    ran = clone(stage, enemy, name)
    assert ran.code == 125, ran.text
    assert "\x1b" not in ran.text and "\x07" not in ran.text


def test_a_hundred_thousand_refs_without_objects_are_refused_in_bounded_memory(
    stage: Gitmoat, enemy: HostileUpstream
) -> None:
    ran = clone(stage, enemy, "many")
    assert ran.code in (124, 125), ran.text
    daemons = json.loads(stage.hostctl("--json", "status").out)
    assert peak_memory(daemons["hostd"]["pid"]) < 300 << 20
    assert peak_memory(daemons["broker"]["pid"]) < 300 << 20


HOOK = """#!/bin/sh
printf 'hello \\033]0;owned\\007\\033[2J\\r\\n' >&2
printf '\\033[31mred\\n'
exit ${1:-0}
"""


@pytest.mark.parametrize("status", [0, 1])
def test_what_an_upstreams_hook_prints_is_made_plain(
    hostile: Hostile, stage: Gitmoat, status: int
) -> None:
    """Side-band text of the server: git prints it raw, so the broker cleans it."""
    hook = bare(stage, ALLOWED) / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(HOOK.replace("${1:-0}", str(status)))
    hook.chmod(0o755)
    try:
        hostile.plant("")
        pushed = hostile.push()
        control = hostile.control('git push "$URL" "HEAD:refs/heads/ci/hook-$$"')
    finally:
        hook.unlink()
    for ran in (pushed.ran, control):
        assert (ran.code == 0) == (status == 0)
        assert "hello" in ran.err
        # git itself clears to the end of a line after a `remote:` line on a terminal, not here
        assert "\x1b" not in ran.err and "\x07" not in ran.err


MODULES = b"""[submodule "evil"]
\tpath = evil
\turl = ext::sh -c touch% /tmp/owned
\tupdate = !touch /tmp/owned
[submodule "other"]
\tpath = other
\turl = ../secrets.git
"""
FILES = {
    "README.md": b"hello\n",
    ".gitmodules": MODULES,
    ".gitattributes": b"* filter=lfs diff=evil merge=evil\n*.x filter=evil ident text\n",
    ".lfsconfig": b'[lfs]\n\turl = "https://127.0.0.1:9999/"\n',
    "big.bin": b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"ab" * 32
    + b"\nsize 123456789\n",
    ".git-blame-ignore-revs": b"x\n",
    "hooks/post-checkout": b"#!/bin/sh\ntouch /tmp/owned\n",
}  # fmt: skip


def test_hostile_content_of_a_repository_does_nothing_when_it_is_cloned(stage: Gitmoat) -> None:
    """Row 72: submodules, attributes and LFS pointers are files like others."""
    name = "acme/content"
    create_repository(stage.upstream.repositories, name, FILES)
    before = len(stage.upstream.log())
    ran = stage.hostctl(
        *("run", "--rm", "--repo", stage.url(name), "--", "sh", "-c"),
        "git -C /workspace status --porcelain && cat /workspace/big.bin && ls /tmp",
    )
    assert ran.code == 0, ran.text
    assert "git-lfs" in ran.out and "owned" not in ran.out
    asked = {
        entry.request.split(" ")[1].split(".git")[0] for entry in stage.upstream.log()[before:]
    }
    assert asked == {f"/{name}"}
    assert not [e for e in stage.upstream.log()[before:] if "lfs" in e.request]


def test_lfs_is_refused_in_its_own_words(hostile: Hostile, stage: Gitmoat) -> None:
    place = f"localhost:{stage.upstream.port}/{ALLOWED}.git"
    probe = r"""
import http.client, json, sys
path = json.load(sys.stdin)
c = http.client.HTTPConnection("127.0.0.1", 419, timeout=100)
kind = "application/vnd.git-lfs+json"
c.request("POST", "/" + path + "/info/lfs/objects/batch", b"{}", {"Content-Type": kind})
r = c.getresponse()
print(json.dumps([r.status, r.getheader("Content-Type"), r.read().decode()]))
"""
    status, kind, body = hostile.box.python(probe, place)
    assert status in (404, 501)
    assert "json" in kind and "message" in json.loads(body)


def test_a_repository_that_fsck_would_refuse_can_still_be_fetched(
    stage: Gitmoat, hostile: Hostile
) -> None:
    """The gate has no work tree: old, odd objects of the upstream are harmless there."""
    path = str(bare(stage, ALLOWED))
    odd = (
        b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor x <> 0 +0000\ncommitter x\n\nodd\n"
    )
    name = git(
        "--git-dir", path, "hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=odd
    )
    git("--git-dir", path, "update-ref", "refs/heads/odd", name)
    try:
        hostile.plant("")
        fetched = hostile.fetch()
        hostile.check(fetched)
    finally:
        git("--git-dir", path, "update-ref", "-d", "refs/heads/odd")


@pytest.mark.parametrize("name", ["drip", "silent"])
def test_a_server_that_drips_or_says_nothing_is_given_up(
    endless: dict[str, Popen[bytes]], name: str
) -> None:
    ran = outcome(endless[name])
    assert ran.code in (124, 125), ran.text
    assert "[R105]" in ran.err

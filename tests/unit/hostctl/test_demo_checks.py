"""A check of the demo that cannot fail would be worthless: each fails in a world that is broken."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from hostctl import demo_agent, demo_audit, demo_split, demo_walls
from hostctl.demo_probes import CONNECT, CREDENTIAL, SCAN
from hostctl.demo_stage import CheckFailed, Ran, Stage
from hostctl.demo_upstream import Upstream
from hostctl.output import Output

HEAD = "a" * 40
COMMIT = "b" * 40
Answer = Callable[[tuple[str, ...]], Ran]
FINE = Ran(0, HEAD, "")


class FakeUpstream(Upstream):
    def __init__(self) -> None:
        super().__init__(Path("/nonexistent"), "0123456789abcdef-secret")

    @property
    def port(self) -> int:
        return 4433


class World(Stage):
    """A stage without anything behind it: every command and probe answers from a script."""

    def __init__(
        self,
        run: Ran | Answer = FINE,
        probes: Mapping[str, Mapping[str, Any]] | None = None,
        refs: Mapping[str, str] | None = None,
        asked: bool = False,
    ) -> None:
        out = Output(stdout=io.StringIO(), stderr=io.StringIO())
        super().__init__(Path("/nonexistent"), FakeUpstream(), "0123456789abcdef", out, head=HEAD)
        self._run, self._probes, self._refs = run, probes or {}, refs or {}
        self._asked, self._looks = asked, 0

    def hostctl(self, *words: str, stdin: str = "", timeout: float = 60) -> Ran:
        return self._run if isinstance(self._run, Ran) else self._run(words)

    def probe(
        self, sandbox: str, source: str, question: Mapping[str, object], tier: str = "untrusted"
    ) -> dict[str, Any]:
        names = {CONNECT: "connect", CREDENTIAL: "credential", SCAN: "scan"}
        return dict(self._probes[f"{names[source]} {tier}"])

    def upstream_ref(self, ref: str, repository: str = "acme/app") -> str | None:
        return self._refs.get(ref)

    def requests(self) -> list[str]:
        self._looks += 1
        more = ["POST /acme/app.git/git-receive-pack HTTP/1.1"] if self._asked else []
        return more * (self._looks - 1)


def failed(check: Callable[[Stage], str], world: World) -> str:
    with pytest.raises(CheckFailed) as caught:
        check(world)
    return str(caught.value)


def git_says(code: int, text: str) -> Ran:
    return Ran(code, "", text)


REJECTED = git_says(1, " ! [remote rejected] HEAD -> main (not allowed (G201))\n")
MAIN = {"refs/heads/main": HEAD}


def test_clone_must_succeed_and_be_the_upstreams() -> None:
    assert HEAD[:9] in demo_agent.clone_works(World())
    assert "ended with 128" in failed(demo_agent.clone_works, World(git_says(128, "fatal: no")))
    assert "upstream has" in failed(demo_agent.clone_works, World(Ran(0, COMMIT, "")))


def test_push_must_arrive() -> None:
    arrived = {"refs/heads/agent/demo": HEAD}
    assert demo_agent.push_works(World(refs=arrived))
    failed(demo_agent.push_works, World())
    failed(demo_agent.push_works, World(git_says(1, "rejected"), refs=arrived))


def test_push_to_main_must_be_refused_with_our_reason_before_the_upstream_hears_of_it() -> None:
    check = demo_agent.push_to_main_is_refused
    assert "[remote rejected]" in check(World(REJECTED, refs=MAIN))
    assert "succeeded" in failed(check, World(refs=MAIN))
    assert "did not show" in failed(check, World(git_says(1, "fatal: hung up"), refs=MAIN))
    assert "has moved" in failed(check, World(REJECTED, refs={"refs/heads/main": COMMIT}))
    assert "was asked" in failed(check, World(REJECTED, refs=MAIN, asked=True))


def test_forbidden_and_unknown_must_look_the_same() -> None:
    check = demo_agent.foreign_repository_is_unknown
    same = git_says(128, "remote: gitmoat: not available (G101)\nfatal: repository not found\n")
    assert check(World(same))
    assert "was asked" in failed(check, World(same, asked=True))
    assert "succeeded" in failed(check, World())
    assert "not a 404" in failed(check, World(git_says(128, "fatal: 403")))

    def telling(words: tuple[str, ...]) -> Ran:
        more = "it exists\n" if "secrets" in words[-1] else ""
        return git_says(128, same.err + more)

    assert "differ" in failed(check, World(telling))


def test_a_revoked_session_must_be_refused() -> None:
    check = demo_agent.revoked_session_is_refused

    def world(after: Ran) -> Answer:
        revoked: list[bool] = []

        def answer(words: tuple[str, ...]) -> Ran:
            revoked.extend([True] * (words[0] == "session"))
            return after if revoked and words[0] == "exec" else Ran(0, "", "")

        return answer

    ended = git_says(128, "remote: gitmoat: this session has ended (S101)\n")
    assert check(World(world(ended))) == "gitmoat: this session has ended (S101)"
    assert "succeeded" in failed(check, World(world(Ran(0, "", ""))))
    assert "did not show" in failed(check, World(world(git_says(128, "fatal: hung up"))))
    assert "was asked" in failed(check, World(world(ended), asked=True))


def test_the_command_must_have_no_git_network() -> None:
    check = demo_split.command_has_no_git_network
    assert check(World(git_says(128, "fatal")))
    assert "succeeded" in failed(check, World())
    assert "was asked" in failed(check, World(git_says(128, "fatal"), asked=True))


def test_the_gates_push_must_arrive() -> None:
    assert demo_split.gate_pushes(World(refs={"refs/heads/ci/demo": HEAD}))
    failed(demo_split.gate_pushes, World())


@pytest.mark.parametrize("answer", [{"password": "x"}, {"username": "x"}, {"odd": "1"}])
def test_the_credential_socket_must_give_nothing(answer: dict[str, str]) -> None:
    check = demo_split.credential_socket_refuses
    assert check(World(probes={"credential untrusted": {"credential": {"quit": "1"}}}))
    failed(check, World(probes={"credential untrusted": {"credential": answer}}))


def result(error: str | None, seconds: float = 0.0) -> dict[str, object]:
    return {"target": ["4", "h", 1], "error": error, "seconds": seconds}


@pytest.mark.parametrize(
    ("helper", "untrusted"),
    [(result("refused"), result("refused")), (result(None), result(None)),
     (result(None), result("timed out", 3.0))],
)  # fmt: skip
def test_port_418_must_be_the_helpers_alone(
    helper: dict[str, object], untrusted: dict[str, object]
) -> None:
    def world(one: dict[str, object], other: dict[str, object]) -> World:
        probes = {"connect helper": {"results": [one]}, "connect untrusted": {"results": [other]}}
        return World(probes=probes)

    assert demo_split.helper_port_refuses(world(result(None), result("no route")))
    failed(demo_split.helper_port_refuses, world(helper, untrusted))


@pytest.mark.parametrize(
    "results",
    [
        [result("refused"), result("unreachable")],  # the probe itself sees nothing
        [result(None), result("unreachable"), result(None)],
        [result(None), result("timed out", 3.0)],
    ],
)
def test_the_way_out_must_be_closed_at_once(results: list[dict[str, object]]) -> None:
    good = {"connect untrusted": {"results": [result(None), result("unreachable", 0.1)]}}
    assert demo_walls.no_way_out(World(probes=good))
    failed(demo_walls.no_way_out, World(probes={"connect untrusted": {"results": results}}))


@pytest.mark.parametrize(
    "scan",
    [
        {"found": ["/proc/7/environ"], "seen": {"canary": True, "files": 1, "processes": 1}},
        {"found": [], "seen": {"canary": False, "files": 1, "processes": 1}},
    ],
)
def test_the_password_must_not_be_found_by_a_scan_that_works(scan: dict[str, Any]) -> None:
    clean = {"found": [], "seen": {"canary": True, "files": 1, "processes": 1}}
    reply = {"419 without": 200, "419 body": "refs"}
    good: dict[str, Mapping[str, Any]]
    good = {"scan untrusted": clean, "scan helper": clean, "credential untrusted": reply}
    check = demo_walls.password_is_nowhere
    assert check(World(probes=good))
    failed(check, World(probes={**good, "scan helper": scan}))
    leaking = {**reply, "419 body": "0123456789abcdef"}
    failed(check, World(probes={**good, "credential untrusted": leaking}))
    failed(check, World(probes={**good, "credential untrusted": {"419 without": 502}}))


GOOD_HELPER = {"credential": {"password": "t"}, "418": 200, "418 without": 401}


@pytest.mark.parametrize(
    ("helper", "thief"),
    [
        ({**GOOD_HELPER, "credential": {}}, {"418": 0, "419": 404}),
        ({**GOOD_HELPER, "418 without": 200}, {"418": 0, "419": 404}),
        (GOOD_HELPER, {"418": 200, "419": 404}),
        (GOOD_HELPER, {"418": 0, "419": 200}),
    ],
)
def test_a_token_must_be_good_for_the_helper_only(
    helper: dict[str, Any], thief: dict[str, Any]
) -> None:
    probes = {"credential helper": helper, "credential untrusted": thief}
    failed(demo_walls.token_is_worthless, World(probes=probes))


def test_the_audit_must_tell_the_whole_story() -> None:
    def push(decision: str, ref: str, **more: str) -> dict[str, object]:
        refs = [{"ref": ref}]
        return {"event": "push.decision", "decision": decision, "refs": refs, **more}

    story: list[dict[str, object]] = [
        push("allow", "refs/heads/agent/demo", tier="untrusted"),
        push("deny", "refs/heads/main", code="G201"),
        push("allow", "refs/heads/ci/demo", tier="helper"),
        {"event": "git.decision", "decision": "deny", "code": "G101"},
        {"event": "peer.refused", "decision": "deny", "code": "H101"},
        {"event": "session.revoked", "reason": "demo"},
        {"event": "sandbox.created"},
    ]
    assert demo_audit.missing(story) == []
    for left_out in range(len(story)):
        assert len(demo_audit.missing(story[:left_out] + story[left_out + 1 :])) == 1

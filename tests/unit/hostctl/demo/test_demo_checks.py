"""A check of the demo that cannot fail would be worthless: each fails in a world that is broken."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from hostctl.demo import agent_mode as demo_agent
from hostctl.demo import isolation as demo_walls
from hostctl.demo import recorded as demo_audit
from hostctl.demo import split_mode as demo_split
from hostctl.demo.git_server import Upstream
from hostctl.demo.inside import CREDENTIAL, SCAN
from hostctl.demo.stage import AGENT, SPLIT, CheckFailed, Ran, Stage
from hostctl.output import Output

HEAD = "a" * 40
COMMIT = "b" * 40
Answer = Callable[[tuple[str, ...]], Ran]
FINE = Ran(0, HEAD, "")


class FakeUpstream(Upstream):
    def __init__(self) -> None:
        super().__init__(Path("/nonexistent"), "0123456789abcdef-secret")
        self.port = 4433


class ScriptedStage(Stage):
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
        names = {CREDENTIAL: "token", SCAN: "scan"}
        return dict(self._probes[f"{names[source]} {tier}"])

    def upstream_ref(self, ref: str, repository: str = "acme/app") -> str | None:
        return self._refs.get(ref)

    def requests(self) -> list[str]:
        self._looks += 1
        more = ["POST /acme/app.git/git-receive-pack HTTP/1.1"] if self._asked else []
        return more * (self._looks - 1)


def failed(check: Callable[[Stage], str], world: ScriptedStage) -> str:
    with pytest.raises(CheckFailed) as caught:
        check(world)
    return str(caught.value)


def git_says(code: int, text: str) -> Ran:
    return Ran(code, "", text)


REJECTED = git_says(1, " ! [remote rejected] HEAD -> main (not allowed (G201))\n")
MAIN = {"refs/heads/main": HEAD}


def test_clone_must_succeed_and_be_the_upstreams() -> None:
    assert HEAD[:9] in demo_agent.clone_works(ScriptedStage())
    assert "ended with 128" in failed(
        demo_agent.clone_works, ScriptedStage(git_says(128, "fatal: no"))
    )
    assert "upstream has" in failed(demo_agent.clone_works, ScriptedStage(Ran(0, COMMIT, "")))


def test_push_must_arrive() -> None:
    arrived = {"refs/heads/agent/demo": HEAD}
    assert demo_agent.push_works(ScriptedStage(refs=arrived))
    failed(demo_agent.push_works, ScriptedStage())
    failed(demo_agent.push_works, ScriptedStage(git_says(1, "rejected"), refs=arrived))


def test_push_to_main_must_be_refused_with_our_reason_before_the_upstream_hears_of_it() -> None:
    check = demo_agent.push_to_main_is_refused
    assert "[remote rejected]" in check(ScriptedStage(REJECTED, refs=MAIN))
    assert "succeeded" in failed(check, ScriptedStage(refs=MAIN))
    assert "did not show" in failed(check, ScriptedStage(git_says(1, "fatal: hung up"), refs=MAIN))
    assert "has moved" in failed(check, ScriptedStage(REJECTED, refs={"refs/heads/main": COMMIT}))
    assert "was asked" in failed(check, ScriptedStage(REJECTED, refs=MAIN, asked=True))


def test_forbidden_and_unknown_must_look_the_same() -> None:
    check = demo_agent.foreign_is_unknown
    same = git_says(128, "remote: gitmoat: not available (G101)\nfatal: repository not found\n")
    assert check(ScriptedStage(same))
    assert "was asked" in failed(check, ScriptedStage(same, asked=True))
    assert "succeeded" in failed(check, ScriptedStage())
    assert "not a 404" in failed(check, ScriptedStage(git_says(128, "fatal: 403")))

    def telling(words: tuple[str, ...]) -> Ran:
        more = "it exists\n" if "secrets" in words[-1] else ""
        return git_says(128, same.err + more)

    assert "differ" in failed(check, ScriptedStage(telling))


def test_a_revoked_session_must_be_refused() -> None:
    check = demo_agent.revoked_session_is_refused

    def world(after: Ran) -> Answer:
        revoked: list[bool] = []

        def answer(words: tuple[str, ...]) -> Ran:
            revoked.extend([True] * (words[0] == "session"))
            return after if revoked and words[0] == "exec" else Ran(0, "", "")

        return answer

    ended = git_says(128, "remote: gitmoat: this session has ended (S101)\n")
    assert check(ScriptedStage(world(ended))) == "gitmoat: this session has ended (S101)"
    assert "succeeded" in failed(check, ScriptedStage(world(Ran(0, "", ""))))
    assert "did not show" in failed(check, ScriptedStage(world(git_says(128, "fatal: hung up"))))
    assert "was asked" in failed(check, ScriptedStage(world(ended), asked=True))


def test_the_command_must_have_no_git_network() -> None:
    check = demo_split.command_has_no_network
    assert check(ScriptedStage(git_says(128, "fatal")))
    assert "succeeded" in failed(check, ScriptedStage())
    assert "was asked" in failed(check, ScriptedStage(git_says(128, "fatal"), asked=True))


def test_the_gates_push_must_arrive() -> None:
    assert demo_split.gate_pushes(ScriptedStage(refs={"refs/heads/ci/demo": HEAD}))
    failed(demo_split.gate_pushes, ScriptedStage())


def row(group: str, ok: bool = True, **more: object) -> dict[str, object]:
    return {
        "group": group,
        "probe": "p",
        "as": "untrusted",
        "got": "x",
        "code": "N1",
        "ok": ok,
    } | more


REPORT = {
    "probes": [
        *map(row, ("network", "egress", "dns", "metadata", "proxy", "credential", "sidecar")),
        row("ports", probe="untrusted reaches 418", got="EHOSTUNREACH"),
    ]
}


def measured(report: object) -> ScriptedStage:
    world = ScriptedStage()
    world.reports = {AGENT: report, SPLIT: report}
    return world


@pytest.mark.parametrize(
    ("check", "group"),
    [
        (demo_walls.credential_socket_refuses, "credential"),
        (demo_walls.helper_port_refuses, "ports"),
        (demo_walls.no_way_out, "egress"),
        (demo_walls.no_way_out, "metadata"),
        (demo_walls.sidecar_cannot_connect, "sidecar"),
    ],
)
def test_what_verify_measures_must_be_measured_and_enforced(
    check: Callable[[Stage], str], group: str
) -> None:
    assert check(measured(REPORT))
    assert "p (as untrusted): x [N1]" in failed(
        check, measured({"probes": [*REPORT["probes"], row(group, ok=False)]})
    )
    assert "measured nothing" in failed(check, measured({}))


@pytest.mark.parametrize(
    "scan",
    [
        {"found": ["/proc/7/environ"], "seen": {"canary": True, "files": 1, "processes": 1}},
        {"found": [], "seen": {"canary": False, "files": 1, "processes": 1}},
    ],
)
def test_the_password_must_not_be_found_by_a_scan_that_works(scan: dict[str, Any]) -> None:
    clean = {"found": [], "seen": {"canary": True, "files": 1, "processes": 1}}
    reply = {"ports": {"419": [[200, "refs"], [200, "refs"]]}}
    good: dict[str, Mapping[str, Any]]
    good = {"scan untrusted": clean, "scan helper": clean, "token untrusted": reply}
    check = demo_walls.password_is_nowhere
    assert check(ScriptedStage(probes=good))
    failed(check, ScriptedStage(probes={**good, "scan helper": scan}))
    for wrong in ([200, "0123456789abcdef"], [502, ""]):
        answer = {"ports": {"419": [wrong, wrong]}}
        failed(check, ScriptedStage(probes={**good, "token untrusted": answer}))


def answers(token: str | None, **ports: tuple[int, int]) -> dict[str, object]:
    """Statuses with the token and without, by port."""
    found = {port[1:]: [[with_it, ""], [without, ""]] for port, (with_it, without) in ports.items()}
    return {"token": token, "ports": found}


HELPED = answers("t", p418=(200, 401))
REFUSED = answers("t", p418=(0, 0), p419=(404, 404))


@pytest.mark.parametrize(
    ("helper", "thief"),
    [
        (answers(None, p418=(200, 401)), REFUSED),
        (answers("t", p418=(200, 200)), REFUSED),
        (HELPED, answers("t", p418=(200, 0), p419=(404, 404))),
        (HELPED, answers("t", p418=(0, 0), p419=(200, 404))),
    ],
)
def test_a_token_must_be_good_for_the_helper_only(
    helper: dict[str, Any], thief: dict[str, Any]
) -> None:
    probes = {"token helper": helper, "token untrusted": thief}
    failed(demo_walls.token_is_worthless, ScriptedStage(probes=probes))


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

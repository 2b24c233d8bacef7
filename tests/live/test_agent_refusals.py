"""Agent mode: what is out of scope is refused in words that git shows; upstream is not asked."""

from __future__ import annotations

import json

import pytest

from tests.stage.boxes import Box, Clone, request_id, told
from tests.stage.command import Ran
from tests.stage.gitmoat import Gitmoat
from tests.stage.repositories import ALLOWED, FORBIDDEN, objects, reaching_upstream, refs, shapes

SCOPE = "remote: allowed: demo:acme/app: fetch; push agent/**"
NOT_THIS_REF = "pushing to this ref is not allowed (G201)"
ADDRESS = "http://127.0.0.1:419/HOST/acme/app.git"
ADVERTISED = ["GET refs?service=git-receive-pack"]


def refused_push(clone: Clone, stage: Gitmoat, *refspecs: str) -> Ran:
    """A push that must fail, change nothing upstream and send nothing there."""
    before = (refs(stage), objects(stage))
    with reaching_upstream(stage) as requests:
        ran = clone.git("push", "origin", *refspecs)
    assert ran.code == 1, ran.err
    assert shapes(requests) == ADVERTISED
    assert (refs(stage), objects(stage)) == before
    return ran


def rejection(reason: str, *lines: str) -> list[str]:
    return [
        f"remote: gitmoat: {reason}",
        SCOPE,
        "remote: request id: ID",
        f"To {ADDRESS}",
        *lines,
        f"error: failed to push some refs to '{ADDRESS}'",
    ]


def test_a_push_to_main_is_rejected_by_name_and_reason(
    clone: Clone, stage: Gitmoat, branch: str
) -> None:
    clone.commit(branch)
    ran = refused_push(clone, stage, "HEAD:main")
    line = f" ! [remote rejected] HEAD -> main ({NOT_THIS_REF})"
    assert told(ran, stage) == rejection(NOT_THIS_REF, line)
    assert ran.out == ""


def test_one_denied_ref_refuses_the_whole_push(clone: Clone, stage: Gitmoat, branch: str) -> None:
    clone.commit(branch)
    ran = refused_push(clone, stage, f"HEAD:{branch}", "HEAD:main")
    assert told(ran, stage) == rejection(
        NOT_THIS_REF,
        f" ! [remote rejected] HEAD -> main ({NOT_THIS_REF})",
        f" ! [remote rejected] HEAD -> {branch} (refused with the rest)",
    )


def test_a_delete_is_refused_even_within_the_scope(
    clone: Clone, stage: Gitmoat, branch: str
) -> None:
    clone.commit(branch)
    clone.ask("push", "-q", "origin", branch)
    reason = "deleting this ref is not allowed (G202)"
    ran = refused_push(clone, stage, f":{branch}")
    assert told(ran, stage) == rejection(reason, f" ! [remote rejected] {branch} ({reason})")


@pytest.mark.parametrize(
    "ref", ["refs/tags/agent/v1", "refs/heads/agent", "refs/pull/1/head", "refs/heads/AGENT/x"]
)
def test_only_the_listed_branches_are_in_scope(
    clone: Clone, stage: Gitmoat, branch: str, ref: str
) -> None:
    clone.commit(branch)
    assert NOT_THIS_REF in refused_push(clone, stage, f"HEAD:{ref}").err


def test_a_large_push_is_refused_with_the_reason_too(
    clone: Clone, stage: Gitmoat, branch: str
) -> None:
    clone.commit(branch, kib=3000)
    ran = refused_push(clone, stage, "HEAD:main")
    line = f" ! [remote rejected] HEAD -> main ({NOT_THIS_REF})"
    assert told(ran, stage) == rejection(NOT_THIS_REF, line)


def test_a_forbidden_repository_looks_like_one_that_does_not_exist(
    agent: Box, stage: Gitmoat
) -> None:
    said = []
    with reaching_upstream(stage) as requests:
        for name in (FORBIDDEN, "acme/nothing"):
            url = stage.url(name)
            for words in (["ls-remote", url], ["fetch", url], ["push", url, "HEAD:agent/x"]):
                ran = agent.run("git", "-C", "/workspace", *words)
                assert ran.code == 128
                said.append([line.replace(name, "NAME") for line in told(ran, stage)])
    assert said[:3] == said[3:]
    assert (
        said[0]
        == said[1]
        == said[2]
        == [
            "remote: gitmoat: this repository is not available here (G101)",
            SCOPE,
            "remote: request id: ID",
            "fatal: repository 'http://127.0.0.1:419/HOST/NAME.git/' not found",
        ]
    )
    assert requests == []


def test_a_submodule_out_of_scope_is_refused_in_words(clone: Clone, stage: Gitmoat) -> None:
    with reaching_upstream(stage) as requests:
        ran = clone.git("submodule", "add", stage.url(FORBIDDEN), "sub")
    assert ran.code == 128
    assert told(ran, stage)[1:4] == [
        "remote: gitmoat: this repository is not available here (G101)",
        SCOPE,
        "remote: request id: ID",
    ]
    assert requests == []


def test_a_repository_of_another_server_is_out_of_reach(agent: Box, stage: Gitmoat) -> None:
    for url in ("https://github.com/acme/app.git", "http://127.0.0.1:419/github.com/acme/app.git"):
        assert agent.run("git", "ls-remote", url).code == 128
    port = stage.upstream.port
    direct = agent.run("git", "-c", "url.x.insteadOf=x", "ls-remote", f"https://127.0.0.1:{port}/x")
    assert direct.code == 128
    assert "Connection refused" in direct.err or "Couldn't connect" in direct.err


def test_the_request_id_leads_the_owner_to_the_whole_reason(
    clone: Clone, stage: Gitmoat, branch: str
) -> None:
    commit = clone.commit(branch)
    identifier = request_id(refused_push(clone, stage, "HEAD:refs/heads/main"))
    ran = stage.hostctl("--json", "explain", identifier)
    (event, *_) = json.loads(ran.expect_success("explain"))["events"]
    assert (event["decision"], event["code"], event["op"]) == ("deny", "G201", "push")
    assert event["repo"] == f"demo:{ALLOWED}"
    assert "refs/heads/main" in json.dumps(event["refs"]) and commit in json.dumps(event["refs"])


def test_the_scope_can_be_read_in_the_sandbox_and_holds_no_secret(
    agent: Box, stage: Gitmoat
) -> None:
    text = agent.run("cat", "/run/gitmoat/policy.json").expect_success("cat")
    (rule,) = json.loads(text)["git"]
    assert rule["repos"] == [f"demo:{ALLOWED}"]
    assert stage.public not in text

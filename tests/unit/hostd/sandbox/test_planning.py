from __future__ import annotations

from typing import Any

import pytest

from hostd.failures import Failed
from hostd.sandbox.plan import Plan, image_of
from hostd.sandbox.planning import make_plan, parse_run
from hostd.sandbox.policies import knowing
from hostd.sandbox.uids import UidRange, next_index
from netpolicy.author import Author
from netpolicy.policy import Tier
from netpolicy.upstreams import Upstream, UpstreamTable

UPSTREAMS = UpstreamTable((Upstream("github", ("github.com",), True),))
UIDS = UidRange(2_000_000_000, 300)
URL = "https://github.com/acme/app.git"


def plan(taken: set[str] | None = None, **body: Any) -> Plan:
    request = parse_run({"argv": ["true"], **body})
    return make_plan(request, UPSTREAMS, taken or set(), UIDS, 0)


def test_one_repository_is_the_workspace() -> None:
    made = plan(repos=[URL])
    assert [each.directory for each in made.repositories] == ["/workspace"]


def test_several_repositories_lie_side_by_side() -> None:
    made = plan(repos=[URL, "git@github.com:acme/web.git"])
    directories = [each.directory for each in made.repositories]
    assert directories == ["/workspace/app", "/workspace/web"]


def test_a_plan_says_who_the_author_is_where_it_is_not_the_usual_one() -> None:
    usual, other = plan(repos=[URL]), plan(repos=[URL], author="Ada <ada@mail.example>")
    assert "author" not in usual.to_json(), "an earlier hostd does not know it"
    assert other.author == Author("Ada", "ada@mail.example")
    for made in (usual, other):
        assert Plan.from_json(made.to_json(), UIDS) == made


def test_a_plan_takes_upstreams_that_were_added_but_keeps_those_of_its_repositories() -> None:
    made = plan(repos=[URL])
    more = UpstreamTable((*UPSTREAMS.upstreams, Upstream("corp", ("git.corp.example",), False)))
    assert knowing(made, more).upstreams == more
    for other in (UpstreamTable(()), UpstreamTable((Upstream("hub", ("github.com",), True),))):
        assert knowing(made, other) == made


def test_without_agent_only_the_gate_has_git() -> None:
    (rule,) = plan(repos=[URL]).policy.git
    assert rule.who == frozenset({Tier.HELPER})
    (rule,) = plan(repos=[URL], agent=True).policy.git
    assert rule.who == frozenset(Tier)


def test_two_sandboxes_have_no_uid_in_common() -> None:
    first, second = UIDS.at(0), UIDS.at(1)
    assert not {first.sidecar, first.helper, first.untrusted} & {
        second.sidecar,
        second.helper,
        second.untrusted,
    }


def test_uids_are_given_out_in_turn_so_that_none_is_reused_soon() -> None:
    small = UidRange(2_000_000_000, 9)
    assert next_index(small, -1, set()) == 0
    assert next_index(small, 0, set()) == 1
    assert next_index(small, 2, {0}) == 1
    with pytest.raises(Failed):
        next_index(small, 0, {0, 1, 2})


@pytest.mark.parametrize(
    ("body", "code", "exit_code"),
    [
        ({"argv": []}, "C105", 2),
        ({"surprise": 1}, "C105", 1),
        ({"agent": "yes"}, "C105", 1),
        ({"repos": ["https://evil.example/x/y"]}, "U107", 4),
        ({"repos": ["https://github.com/../x"]}, "U107", 4),
        ({"name": "Bad_Name"}, "C105", 2),
        ({"name": "../../etc"}, "C105", 2),
        ({"env": {"A=B": "c"}}, "C105", 2),
        ({"env": {"A": "c\0"}}, "C105", 2),
        ({"repos": [URL, URL]}, "C105", 2),
        ({"repos": [URL], "push": ["a..b"]}, "P101", 8),
        ({"policy": {"version": 1, "name": "x", "nonsense": 1}}, "P101", 8),
        ({"policy": {"version": 1, "name": "x"}, "repos": [URL]}, "G101", 3),
        ({"policy": "version = 1\nname = 'x'\nsince = 2020-01-01"}, "P101", 8),
        ({"policy": "version = 1\nname = 'x'\n[preset]\nuse = ['pip']"}, "P101", 8),
        ({"policy": "version = 1\nname = 'x'\n[[egress]]\nhosts = ['*.com']"}, "P104", 8),
        ({"policy": {"version": 1, "name": "x", "egress": [{"hosts": ["*.com"]}]}}, "P104", 8),
        ({"pids": 0, "memory": -1}, "C105", 2),
        ({"runtime": "magic"}, "R101", 2),
    ],
)
def test_what_cannot_be_planned_says_why(body: dict[str, Any], code: str, exit_code: int) -> None:
    with pytest.raises(Failed) as caught:
        plan(**body)
    assert (caught.value.code, caught.value.exit_code) == (code, exit_code)


def test_a_name_is_used_once() -> None:
    with pytest.raises(Failed) as caught:
        plan(name="one", taken={"one"})
    assert caught.value.code == "R104"


def test_there_are_limits_also_when_nobody_asked_for_any() -> None:
    limits = plan().limits
    assert limits.pids
    assert limits.memory


@pytest.mark.parametrize(
    ("body", "runtime"),
    [
        ({}, "bwrap"),
        ({"runtime": "bwrap"}, "bwrap"),
        ({"image": "node:22"}, "docker"),
        ({"image": "example.com:5000/a/b@sha256:00", "runtime": "docker"}, "docker"),
    ],
)
def test_an_image_chooses_docker(body: dict[str, Any], runtime: str) -> None:
    made = plan(**body)
    assert (made.runtime, image_of(made.ownership)) == (runtime, body.get("image"))


@pytest.mark.parametrize(
    "body",
    [
        {"runtime": "docker"},
        {"runtime": "bwrap", "image": "node:22"},
        {"runtime": "podman"},
        {"image": ""},
        {"image": "-v/:/host"},
        {"image": "a b"},
        {"image": "a" * 300},
    ],
)
def test_an_image_and_a_runtime_that_do_not_fit_are_refused(body: dict[str, Any]) -> None:
    with pytest.raises(Failed) as caught:
        plan(**body)
    assert caught.value.exit_code == 2


def test_a_policy_is_the_text_of_a_file_or_a_mapping() -> None:
    text = "version = 1\nname = 'x'\n[[git]]\nrepos = ['github:acme/**']\nfetch = true\n"
    rule = {"repos": ["github:acme/**"], "fetch": True}
    mapping = {"version": 1, "name": "x", "git": [rule]}
    assert plan(policy=text).policy == plan(policy=mapping).policy

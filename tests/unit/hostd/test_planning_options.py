"""Options of `run` beside --policy, and --workdir."""

from __future__ import annotations

from typing import Any

import pytest

from hostd.failures import Failed
from hostd.sandbox.plan import Plan
from hostd.sandbox.planning import make_plan, parse_run
from hostd.sandbox.uids import UidRange
from hostd.sandbox.workdir import Workdir
from netpolicy.upstreams import Upstream, UpstreamTable

UPSTREAMS = UpstreamTable((Upstream("github", ("github.com",), True),))
URL = "https://github.com/Acme/App.git"
POLICY = {
    "version": 1,
    "name": "agents",
    "session": {"ttl": "8h"},
    "git": [
        {
            "repos": ["github:acme/*"],
            "fetch": True,
            "push": {"branches": ["agent/**"]},
            "who": ["helper", "untrusted"],
        }
    ],
}
WORKDIR = {"path": "/srv/w", "read_only": False}


def plan(**body: Any) -> Plan:
    request = parse_run({"argv": ["true"], **body})
    return make_plan(request, UPSTREAMS, set(), UidRange(2_000_000_000, 300), 0)


def test_options_narrow_a_named_policy() -> None:
    made = plan(policy=POLICY, repos=[URL], push=["agent/x"], ttl=60).policy
    (rule,) = made.git
    assert [pattern.text for pattern in rule.repos] == ["github:Acme/App"]
    assert rule.push is not None
    assert [pattern.text for pattern in rule.push.branches] == ["refs/heads/agent/x"]
    assert made.session.ttl == 60


def test_a_work_directory_takes_the_place_of_a_clone() -> None:
    assert plan(workdir=WORKDIR).workdir == Workdir("/srv/w", read_only=False)
    assert plan().workdir is None


@pytest.mark.parametrize(
    ("body", "code", "exit_code"),
    [
        ({"policy": POLICY, "agent": True}, "C105", 2),
        ({"policy": POLICY, "push": ["main"]}, "P101", 8),
        ({"policy": POLICY, "ttl": 9 * 3600}, "P101", 8),
        ({"policy": POLICY, "repos": ["https://github.com/evil/app"]}, "G101", 3),
        ({"workdir": WORKDIR, "repos": [URL]}, "C105", 2),
        ({"workdir": "/srv/w"}, "C105", 1),
        ({"workdir": {"path": "../etc", "read_only": True}}, "C105", 2),
    ],
)
def test_what_does_not_go_together_says_so(body: dict[str, Any], code: str, exit_code: int) -> None:
    with pytest.raises(Failed) as caught:
        plan(**body)
    assert (caught.value.code, caught.value.exit_code) == (code, exit_code)

"""The most that a host may grant."""

import pytest

from netpolicy.ceiling import exceeded
from netpolicy.format.document import parse_policy
from netpolicy.patterns.matchers import RepoPattern
from netpolicy.policy import Ceiling

POLICY = """
version = 1
name = "p"
[session]
ttl = "1h"
max_ttl = "4h"
[[git]]
repos = ["up:acme/app", "up:acme/web-*", "lab:team/**"]
fetch = true
push = { branches = ["agent/**"] }
[[git]]
id = "no"
effect = "deny"
repos = ["elsewhere:x/**"]
"""
ACME = RepoPattern("up", "acme/*")
TEAM = RepoPattern("lab", "team/**")


@pytest.mark.parametrize(
    ("ceiling", "above"),
    [
        (Ceiling(), None),
        (Ceiling((ACME, TEAM)), None),
        (Ceiling((RepoPattern("up", "**"), RepoPattern("lab", "**"))), None),
        (Ceiling((ACME,)), "lab:team/**"),
        (Ceiling((RepoPattern("up", "acme/app"), TEAM)), "up:acme/web-*"),
        (Ceiling((RepoPattern("other", "**"),)), "up:acme/app"),
        (Ceiling((ACME, RepoPattern("lab", "team/*"))), "lab:team/**"),
        (Ceiling((ACME, TEAM), push=False), "pushing"),
        (Ceiling(ttl=4 * 3600), None),
        (Ceiling(ttl=3 * 3600), "sessions of more than 3h"),
    ],
)
def test_a_policy_is_within_its_hosts_ceiling_or_is_told_what_is_not(
    ceiling: Ceiling, above: str | None
) -> None:
    assert exceeded(parse_policy(POLICY), ceiling) == above

"""Which probes a sandbox gets: from its policy, its uids and what runs it."""

from __future__ import annotations

import json

import pytest

from gitmoat.codes import CODES
from hostd.failures import Failed
from hostd.process.cgroups import ResourceLimits
from hostd.sandbox.plan import Ours, Plan
from hostd.verify.attempts.reporting import ATTEMPTS
from hostd.verify.probe_table import ProbeInputs, all_probes
from hostd.verify.probes import ACTIVATION, Probe
from hostd.verify.verification import GROUPS, chosen_groups
from netpolicy.format.document import parse_policy
from netpolicy.nftables import SIDECAR_PORTS, Uids
from netpolicy.upstreams import Upstream, UpstreamTable

UPSTREAMS = UpstreamTable((Upstream("corp", ("git.example.com",), False),))
BOTH = """\
version = 1
name = "both"
[[git]]
id = "app"
repos = ["corp:acme/app", "corp:acme/web-*"]
fetch = true
push = { branches = ["agent/**"], create = true }
who = ["helper", "untrusted"]
[[git]]
id = "tool"
repos = ["corp:acme/tool"]
fetch = true
"""


def probes(policy: str = BOTH, ownership: Ours | None = None) -> list[Probe]:
    plan = Plan(
        id="0123456789ab",
        name="box",
        uid_index=0,
        uids=Uids(sidecar=2001, helper=2002, untrusted=2003),
        policy=parse_policy(policy),
        upstreams=UPSTREAMS,
        repositories=(),
        limits=ResourceLimits(),
        ownership=ownership,
    )
    return all_probes(ProbeInputs(plan, "marker"))


def named(found: list[Probe], attempt: str, tier: str) -> list[Probe]:
    return [probe for probe in found if (probe.attempt, probe.tier) == (attempt, tier)]


def test_what_activation_asks_is_asked_again() -> None:
    assert set(ACTIVATION) <= set(probes())


def test_each_attempt_code_and_group_exists_and_can_be_sent() -> None:
    found = probes()
    assert {probe.attempt for probe in found} <= set(ATTEMPTS)
    assert {probe.code for probe in found} <= set(CODES)
    assert {probe.group for probe in found} == set(GROUPS) - {"network", "sidecar"}
    targets = [list(probe.target) for probe in found]
    assert json.loads(json.dumps(targets)) == targets


def test_no_probe_is_there_twice() -> None:
    names = [(probe.group, probe.name, probe.tier) for probe in probes()]
    assert len(names) == len(set(names))


def test_every_port_of_a_sidecar_is_tried() -> None:
    tried = {probe.target[1] for probe in probes() if probe.attempt == "bind-tcp4"}
    assert set(SIDECAR_PORTS) <= tried


def test_refs_that_the_policy_denies_are_pushed_by_both_tiers() -> None:
    for tier, port in (("untrusted", 419), ("helper", 418)):
        pushes = [probe.target for probe in named(probes(), "push", tier)]
        assert pushes, tier
        assert {target[0] for target in pushes} == {port}
        assert "refs/heads/gitmoat-verify" in {target[2] for target in pushes}
        assert {target[1] for target in pushes} == {"git.example.com/acme/app.git"}


def test_a_ref_that_may_be_pushed_is_not_tried() -> None:
    wide = BOTH.replace('branches = ["agent/**"]', 'branches = ["**"]')
    refs = {probe.target[2] for probe in named(probes(wide), "push", "untrusted")}
    assert refs == {"refs/tags/gitmoat-verify", "refs/gitmoat/verify"}


def test_the_helpers_own_repository_is_asked_for_on_the_other_port() -> None:
    asked = [probe.target for probe in named(probes(), "repository", "untrusted")]
    assert (419, "git.example.com/acme/tool.git", False) in asked


def test_a_policy_without_repositories_still_has_its_denials() -> None:
    found = probes('version = 1\nname = "nothing"\n')
    assert not any(probe.attempt == "push" for probe in found)
    for tier in ("untrusted", "helper"):
        assert len(named(found, "repository", tier)) == 2
        assert not any(probe.allowed for probe in named(found, "credential", tier))


def test_a_policy_that_allows_everything_leaves_a_server_that_is_not_served() -> None:
    rule = '[[git]]\nid = "all"\nrepos = ["corp:**"]\nfetch = true\n'
    found = probes(f'version = 1\nname = "all"\n{rule}')
    names = {probe.name for probe in named(found, "repository", "helper")}
    assert names == {"a git server that is not served"}


def test_process_1_is_left_alone_where_it_is_the_command() -> None:
    assert named(probes(), "trace", "untrusted")
    assert not named(probes(ownership=Ours("image")), "trace", "untrusted")


def test_groups_are_chosen_by_name() -> None:
    assert chosen_groups(None) == GROUPS
    assert chosen_groups(["git", "dns"]) == ("git", "dns")
    for wrong in ([], "git", ["nonsense"], [7]):
        with pytest.raises(Failed) as refused:
            chosen_groups(wrong)
        assert refused.value.code == "C105"

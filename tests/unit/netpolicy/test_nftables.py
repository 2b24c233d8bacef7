import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netpolicy.nftables import SIDECAR_PORTS, Uids, render, ruleset_hash
from tests.fakes.policies import patient

UIDS = Uids(sidecar=2000000000, helper=2000000001, untrusted=2000000002)


def chain(text: str, name: str) -> list[str]:
    found = re.search(rf"\tchain {name} {{\n(.*?)\n\t}}", text, re.DOTALL)
    assert found is not None
    return [line.strip() for line in found[1].splitlines()]


@patient
@given(st.lists(st.integers(1, 2**32 - 2), min_size=3, max_size=3, unique=True), st.booleans())
def test_the_same_uids_give_the_same_text(uids: list[int], egress: bool) -> None:
    text = render(Uids(*uids), egress)
    assert text == render(Uids(*uids), egress)
    assert set(map(int, re.findall(r"skuid ([0-9]+)", text))) == set(uids)
    assert "skuid !=" not in text


@pytest.mark.parametrize("hook", ["input", "forward", "output"])
def test_every_hook_drops_by_default(hook: str) -> None:
    for egress in (False, True):
        rules = chain(render(UIDS, egress), hook)
        assert rules[0] == f"type filter hook {hook} priority filter; policy drop;"


def test_without_egress_only_the_two_git_ports_are_open() -> None:
    opened = [rule for rule in chain(render(UIDS, egress=False), "lo_syn") if "accept" in rule]
    assert opened == [
        "ip daddr 127.0.0.1 tcp dport 418 meta skuid 2000000001 accept",
        "ip daddr 127.0.0.1 tcp dport 419 meta skuid 2000000002 accept",
        "tcp dport != @sidecar_ports meta skuid 2000000002 accept",
    ]


def test_the_helper_never_gets_more_than_its_git_port() -> None:
    for egress in (False, True):
        mentions = [line for line in render(UIDS, egress).splitlines() if "2000000001" in line]
        assert [line.strip() for line in mentions] == [
            "ip daddr 127.0.0.1 tcp dport 418 meta skuid 2000000001 accept"
        ]


def test_every_port_of_the_sidecar_is_guarded_with_and_without_egress() -> None:
    listed = "elements = { 53, 80, 418, 419, 443, 480 }"
    assert ", ".join(map(str, SIDECAR_PORTS)) in listed
    assert listed in render(UIDS, egress=False)
    assert listed in render(UIDS, egress=True)


@pytest.mark.parametrize("uids", [(0, 1, 2), (1, 1, 2), (1, 2, 2**32 - 1), (-1, 2, 3)])
def test_uids_that_could_not_keep_apart_are_refused(uids: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="three distinct uids"):
        Uids(*uids)


def test_the_hash_is_of_the_rules_and_not_of_their_layout_or_counts() -> None:
    text = render(UIDS, egress=False)
    listed = text.replace("# gitmoat ruleset 1\nflush ruleset\n", "")
    listed = listed.replace("443, 480 }", "443,\n\t\t\t     480 }")
    listed = listed.replace("counter squat {\n", "counter squat {\n\t\tpackets 7 bytes 420\n")
    assert listed != text
    assert ruleset_hash(listed) == ruleset_hash(text)


def test_the_hash_tells_rules_apart() -> None:
    text = render(UIDS, egress=False)
    assert ruleset_hash(text) != ruleset_hash(render(UIDS, egress=True))
    assert ruleset_hash(text) != ruleset_hash(text.replace("policy drop", "policy accept"))
    assert ruleset_hash(text) != ruleset_hash(text + "table ip nat {\n}\n")
    assert ruleset_hash(text) != ruleset_hash(text.replace("ruleset 1", "ruleset 2"))

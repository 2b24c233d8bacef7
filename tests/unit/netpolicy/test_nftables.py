import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netpolicy.nftables import SIDECAR_PORTS, Uids, render, ruleset_hash
from tests.fakes.policies import patient

DIGEST = "5" * 64
UIDS = Uids(sidecar=2000000000, helper=2000000001, untrusted=2000000002)


def chain(text: str, name: str) -> list[str]:
    found = re.search(rf"\tchain {name} {{\n(.*?)\n\t}}", text, re.DOTALL)
    assert found is not None
    return [line.strip() for line in found[1].splitlines()]


@patient
@given(st.lists(st.integers(1, 2**32 - 2), min_size=3, max_size=3, unique=True))
def test_the_same_uids_give_the_same_text(uids: list[int]) -> None:
    text = render(Uids(*uids), DIGEST)
    assert text == render(Uids(*uids), DIGEST)
    assert set(map(int, re.findall(r"skuid ([0-9]+)", text))) == set(uids)
    assert "skuid !=" not in text


@pytest.mark.parametrize("hook", ["input", "forward", "output"])
def test_every_hook_drops_by_default(hook: str) -> None:
    rules = chain(render(UIDS, DIGEST), hook)
    assert rules[0] == f"type filter hook {hook} priority filter; policy drop;"


def test_only_the_ports_of_the_sidecar_are_open_each_to_its_uid() -> None:
    opened = [rule for rule in chain(render(UIDS, DIGEST), "lo_syn") if "accept" in rule]
    assert opened == [
        "ip daddr 127.0.0.1 tcp dport 418 meta skuid 2000000001 accept",
        "ip daddr 127.0.0.1 tcp dport 419 meta skuid 2000000002 accept",
        "ip daddr 127.0.0.1 tcp dport { 53, 480 } meta skuid 2000000002 accept",
        "ip daddr 198.18.0.0/15 tcp dport { 80, 443 } meta skuid 2000000002 accept",
        "tcp dport != @sidecar_ports meta skuid 2000000002 accept",
    ]


def test_the_helper_never_gets_more_than_its_git_port() -> None:
    mentions = [line for line in render(UIDS, DIGEST).splitlines() if "2000000001" in line]
    assert [line.strip() for line in mentions] == [
        "ip daddr 127.0.0.1 tcp dport 418 meta skuid 2000000001 accept"
    ]


def test_every_port_of_the_sidecar_is_guarded() -> None:
    listed = "elements = { 53, 80, 418, 419, 443, 480 }"
    assert ", ".join(map(str, SIDECAR_PORTS)) in listed
    assert listed in render(UIDS, DIGEST)


@pytest.mark.parametrize("uids", [(0, 1, 2), (1, 1, 2), (1, 2, 2**32 - 1), (-1, 2, 3)])
def test_uids_that_could_not_keep_apart_are_refused(uids: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="three distinct uids"):
        Uids(*uids)


def test_the_hash_is_of_the_rules_and_not_of_their_layout_or_counts() -> None:
    text = render(UIDS, DIGEST)
    listed = text.replace("# gitmoat\nflush ruleset\n", "")
    listed = listed.replace("443, 480 }", "443,\n\t\t\t     480 }")
    listed = listed.replace("counter squat {\n", "counter squat {\n\t\tpackets 7 bytes 420\n")
    assert listed != text
    assert ruleset_hash(listed) == ruleset_hash(text)


def test_the_hash_tells_rules_apart() -> None:
    text = render(UIDS, DIGEST)
    assert ruleset_hash(text) != ruleset_hash(render(UIDS, "0" * 64))
    assert ruleset_hash(text) != ruleset_hash(text.replace("policy drop", "policy accept"))
    assert ruleset_hash(text) != ruleset_hash(text + "table ip nat {\n}\n")
    assert ruleset_hash(text) != ruleset_hash(text.replace("ruleset 1", "ruleset 2"))


def test_the_rules_say_for_which_policy_they_were_loaded() -> None:
    assert f'comment "gitmoat ruleset 1, policy {DIGEST}"' in render(UIDS, DIGEST)
    with pytest.raises(ValueError, match="digest"):
        render(UIDS, '"; flush ruleset')

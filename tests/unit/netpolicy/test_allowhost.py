"""--allow-host: a rule of its own, or less of a policy; never more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitmoat.wire.hostname import Destination, HostName
from netpolicy.egress_rules.egress_decision import EgressAllow, decide_egress
from netpolicy.format.document import parse_policy, policy_from_mapping
from netpolicy.format.reading import PolicyError
from netpolicy.format.writing import policy_to_mapping
from netpolicy.narrowing import adhoc_policy, narrow
from netpolicy.policy import Policy
from netpolicy.rule_kind import Options
from tests.fakes.policies import host_names, patient, policies, ports

POLICY = parse_policy(
    'version = 1\nname = "t"\n[[egress]]\nid = "a"\nhosts = ["*.example", "b.test"]\n'
    'ports = [443, 8443]\n[[egress]]\nid = "no"\neffect = "deny"\nhosts = ["logs.example"]\n'
)


destinations = st.builds(Destination, host_names, ports)


def allowed(policy: Policy, host: str, port: int = 443) -> bool:
    to = Destination(HostName(host), port)
    return isinstance(decide_egress(policy, to, "tls", ()), EgressAllow)


def test_without_a_policy_it_is_a_rule_of_its_own() -> None:
    policy = adhoc_policy("t", Options(hosts=("a.example", "b.example:8443")))
    assert allowed(policy, "a.example") and allowed(policy, "b.example", 8443)
    assert not allowed(policy, "a.example", 8443) and not allowed(policy, "c.example")
    assert policy_from_mapping(policy_to_mapping(policy)) == policy


def test_with_a_policy_it_leaves_what_is_named() -> None:
    policy = narrow(POLICY, Options(hosts=("a.example", "c.example:8443")))
    assert allowed(policy, "a.example") and allowed(policy, "c.example", 8443)
    assert not allowed(policy, "a.example", 8443) and not allowed(policy, "b.test")
    assert policy_from_mapping(policy_to_mapping(policy)) == policy
    assert narrow(POLICY, Options()) == POLICY


@pytest.mark.parametrize("host", ["c.test", "a.example:22", "logs.example", "example"])
def test_what_the_policy_does_not_allow_is_an_error(host: str) -> None:
    with pytest.raises(PolicyError, match="not within"):
        narrow(POLICY, Options(hosts=(host,)))


@pytest.mark.parametrize(
    "text", ["", "203.0.113.5", "localhost", "a.example:0", "http://a", "*.b.c"]
)
def test_what_is_no_host_is_an_error(text: str) -> None:
    for policy in (POLICY, None):
        options = Options(hosts=(text,))
        with pytest.raises(PolicyError) as caught:
            adhoc_policy("t", options) if policy is None else narrow(policy, options)
        assert caught.value.path == "--allow-host"


@patient
@given(
    policies(), st.lists(st.builds(Destination, host_names, ports), max_size=3), host_names, ports
)
def test_nothing_is_ever_wider_than_the_policy(
    policy: Policy, hosts: list[Destination], host: HostName, port: int
) -> None:
    try:
        narrowed = narrow(policy, Options(hosts=tuple(each.text for each in hosts)))
    except PolicyError:
        return
    to = Destination(host, port)
    if isinstance(decide_egress(narrowed, to, "tls", ()), EgressAllow):
        assert isinstance(decide_egress(policy, to, "tls", ()), EgressAllow)
        assert not hosts or to in hosts

"""Learning suggests exact names that would be allowed, and nothing that must not be."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gitmoat.wire.hostname import Destination, HostName
from netpolicy.egress_rules.egress_decision import EgressAllow, decide_egress
from netpolicy.egress_rules.learning import MOST_RULES, learn
from netpolicy.egress_rules.tables import write_rule
from netpolicy.format.document import parse_policy
from netpolicy.format.toml_text import table_lines
from netpolicy.presets.places import Answer, Place
from netpolicy.rule_kind import CheckContext, Learned, Refused
from netpolicy.upstreams import Upstream, UpstreamTable
from tests.fakes.policies import patient

POLICY = parse_policy('version = 1\nname = "p"\n[[egress]]\nhosts = ["ok.corp.example"]\n')
SHARED = {"example", "pages.example"}
PIP = Answer((Place(Destination(HostName("pip.corp.example"), 443), "tls", "/etc/pip.conf"),))
GIT = UpstreamTable((Upstream("corp", ("git.corp.example",), False),))


def lesson(*refused: Refused) -> Learned:
    return learn(POLICY, refused, {"pip": PIP}, CheckContext(GIT, SHARED.__contains__))


def shown(found: Learned) -> list[str]:
    return [
        f"{each.rule.scheme} {each.rule.hosts[0].text}:{each.rule.ports[0]} {each.count}"
        for each in found.suggestions
    ]


def test_refusals_are_grouped_the_most_wanted_first() -> None:
    found = lesson(
        Refused("tunnel", "E101", "a.corp.example:443"),
        Refused("http", "E110", "b.corp.example:80"),
        Refused("http", "E110", "b.corp.example:80", 4),
        Refused("dns", "E101", "c.corp.example", 2),
    )
    assert shown(found) == ["http b.corp.example:80 5", "tls c.corp.example:443 2",
                            "tls a.corp.example:443 1"]  # fmt: skip


def test_a_question_that_led_to_a_connection_is_one_wish() -> None:
    found = lesson(
        Refused("dns", "E101", "a.corp.example", 9),
        Refused("tunnel", "E102", "a.corp.example:8443"),
    )
    assert shown(found) == ["tls a.corp.example:8443 1"]


def test_what_a_preset_explains_is_the_presets() -> None:
    found = lesson(Refused("tunnel", "E101", "pip.corp.example:443"))
    assert (found.presets, found.suggestions) == ({"pip": {"pip.corp.example:443": 1}}, ())


def test_what_the_policy_allows_by_now_is_left_out() -> None:
    assert lesson(Refused("tunnel", "E101", "ok.corp.example:443")) == Learned()


@pytest.mark.parametrize(
    "to",
    ["192.0.2.1:443", "5.2.0.192.in-addr.arpa:443", "0x7f.1:443", "[2001:db8::1]:443",
     "localhost:443", "example:443", "intranet:443", "pages.example:443", "*.corp.example:443",
     "a..b:443", "x", "",
     "\u00e9.example:443", "a.example:0"],
)  # fmt: skip
def test_what_is_no_host_of_ones_own_is_never_suggested(to: str) -> None:
    found = lesson(Refused("tunnel", "E101", to, 3))
    assert not found.suggestions
    assert found.notes == ("3 refusals were for addresses or unusable names; no rule is suggested",)


@pytest.mark.parametrize("code", ["E101", "E104"])
def test_a_git_server_is_never_suggested_and_git_is_named(code: str) -> None:
    found = lesson(Refused("tunnel", code, "git.corp.example:443"))
    assert not found.suggestions
    assert "use git" in found.notes[0]


@pytest.mark.parametrize("code", ["E105", "E106", "E108", "E109", "E112"])
def test_other_refusals_are_not_for_the_list_to_mend(code: str) -> None:
    assert lesson(Refused("tunnel", code, "a.corp.example:443")) == Learned()


def test_a_flood_of_names_is_cut() -> None:
    found = lesson(*(Refused("dns", "E101", f"x{n}.evil.example") for n in range(MOST_RULES + 7)))
    assert len(found.suggestions) == MOST_RULES
    assert found.notes == ("7 more hosts were refused, each less often",)


_hosts = st.sampled_from(
    ["a.corp.example", "ok.corp.example", "b.pages.example", "192.0.2.1", "git.corp.example"]
)
_refusals = st.builds(
    lambda op, code, host, port: Refused(op, code, host if op == "dns" else f"{host}:{port}"),
    st.sampled_from(["tunnel", "http", "dns"]),
    st.sampled_from(["E101", "E102", "E104", "E110"]),
    _hosts | st.text(max_size=12),
    st.sampled_from([80, 443, 8443]),
)  # fmt: skip


@patient
@given(st.lists(_refusals, max_size=6))
def test_the_rules_allow_what_was_wanted_without_wildcards(refused: list[Refused]) -> None:
    found = lesson(*refused)
    rules = [evolve(each.rule, id=f"r{n}") for n, each in enumerate(found.suggestions)]
    blocks = ["\n".join(table_lines("egress", write_rule(rule))) for rule in rules]
    after = parse_policy("\n".join(['version = 1\nname = "p"', *blocks]))
    for rule in rules:
        to = Destination(HostName(rule.hosts[0].text), rule.ports[0])
        assert isinstance(decide_egress(after, to, rule.scheme, GIT.names), EgressAllow)
    assert not any("*" in host.text for rule in rules for host in rule.hosts)

"""What a valid policy may still say by mistake."""

import pytest

from netpolicy.format.document import parse_policy
from netpolicy.lint import lint
from netpolicy.rule_kind import Remark
from netpolicy.upstreams import Upstream, UpstreamTable

HEAD = 'version = 1\nname = "p"\n'
KNOWN = UpstreamTable((Upstream("corp", ("git.corp.example",), False),))
TENANTS = {"example", "pages.example"}


def remarks(text: str) -> list[Remark]:
    policy = parse_policy(HEAD + text)
    return lint(policy, TENANTS.__contains__, KNOWN)


def egress(hosts: str, more: str = "") -> str:
    return f"[[egress]]\nhosts = [{hosts}]\n{more}"


@pytest.mark.parametrize(
    "pattern", ["*.example", "**.example", "a*.example", "*.pages.example", "x.*.pages.example"]
)
def test_a_wildcard_below_what_everybody_has_is_refused(pattern: str) -> None:
    (remark,) = remarks(egress(f'"ok.corp.example", "{pattern}"'))
    assert (remark.path, remark.refused) == ("egress[0].hosts[1]", True)
    assert not remarks(egress(f'"{pattern}"', "allow_shared = true"))


@pytest.mark.parametrize("pattern", ["*.corp.example", "me.pages.example", "*.me.pages.example"])
def test_one_owners_domain_may_have_a_wildcard(pattern: str) -> None:
    assert not remarks(egress(f'"{pattern}"'))


def test_a_rule_that_denies_may_be_as_wide_as_it_likes() -> None:
    assert not remarks(egress('"*.example"', 'effect = "deny"'))


def test_a_git_server_as_a_host_is_remarked_not_refused() -> None:
    (remark,) = remarks(egress('"git.corp.example"'))
    assert "git server" in remark.what and not remark.refused


def test_an_upstream_nobody_configured_is_remarked() -> None:
    (remark,) = remarks('[[git]]\nrepos = ["corp:a/b", "crop:a/b"]\nfetch = true')
    assert (remark.path, remark.what) == ("git[0].repos[1]", "there is no upstream 'crop'")


def test_what_has_no_effect_is_remarked() -> None:
    text = '[session]\nttl = "1h"\nidle = "2h"\n[[git]]\nrepos = ["corp:a/b"]\nfetch = true\n'
    deny = '[[git]]\neffect = "deny"\nrepos = ["corp:a/b"]\n'
    assert [each.path for each in remarks(text + deny)] == ["session.idle", "git[0]"]
    assert [each.path for each in remarks(text + deny + "fetch = true")] == ["session.idle"]


def test_a_short_session_is_no_mistake_of_the_default_for_silence() -> None:
    assert not remarks('[session]\nttl = "1h"\n')

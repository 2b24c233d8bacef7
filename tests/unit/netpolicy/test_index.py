"""`[index]`: which index package managers ask; it opens nothing and carries no credential."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netpolicy.difference import compare
from netpolicy.format.document import PolicyError, parse_policy, policy_to_mapping
from netpolicy.format.writing import policy_to_toml
from netpolicy.lint import lint
from netpolicy.patterns.matchers import BadPattern
from netpolicy.policy import PackageIndexes, Policy
from netpolicy.presets.index_url import parse_index_url
from netpolicy.presets.known_presets import PRESETS, expanded
from netpolicy.presets.places import Answer
from netpolicy.upstreams import UpstreamTable

HEAD = 'version = 1\nname = "p"\n'


def with_index(lines: str) -> Policy:
    return parse_policy(f"{HEAD}[index]\n{lines}\n")


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("https://mirror.example/simple", "https://mirror.example/simple"),
        ("https://Mirror.EXAMPLE:8443", "https://mirror.example:8443/"),
        ("http://mirror.example/a%20b/~x/", "http://mirror.example/a%20b/~x/"),
    ],
)
def test_a_url_is_read_whole(given: str, read: str) -> None:
    assert parse_index_url(given) == read
    assert with_index(f'npm = "{given}"').index == PackageIndexes(npm=read)


@pytest.mark.parametrize(
    "text",
    ["https://bot:hunter2@mirror.example/", "https://bot@mirror.example/", "mirror.example",
     "ftp://mirror.example/", "https:///x", "https://192.0.2.1/", "https://[2001:db8::1]/",
     "https://localhost/", "https://mirror.example:0/", "https://mirror.example:65536/",
     "https://mirror.example/?a", "https://mirror.example/#a", "https://mirror.example/${HOME}",
     "https://mirror.example/a b", "https://mirror.example/\n", 'https://mirror.example/"',
     "https://mirror.example/,direct", "https://mirror.example|off", "https://mirror.example/;x",
     "https://mirror.example/%2", "https://mirror.example\\@x/", "", "https://*.example/",
     "https://mirror.example/" + "a" * 1000],
)  # fmt: skip
def test_what_is_not_understood_whole_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(BadPattern) as refused:
        parse_index_url(text)
    assert "hunter2" not in f"{refused.value} {refused.value.hint}"


@given(st.text(max_size=40))
def test_nothing_gets_through_that_means_something_in_a_file_or_a_variable(tail: str) -> None:
    try:
        url = parse_index_url(f"https://mirror.example/{tail}")
    except BadPattern:
        return
    assert not set(url) & set("\n\r\t \"'\\;#,|$@{}[]=`?&<>")


def test_the_file_says_which_key_is_wrong() -> None:
    with pytest.raises(PolicyError, match=r"^index\.pip: has a user or a password$"):
        with_index('pip = "https://bot:hunter2@mirror.example/"')
    with pytest.raises(PolicyError, match=r"^index\.pop: unknown key$"):
        with_index('pop = "https://mirror.example/"')


def test_a_policy_without_one_is_written_as_before() -> None:
    assert "index" not in policy_to_mapping(parse_policy(HEAD))
    policy = with_index('go = "https://go.example/"')
    assert policy_to_mapping(policy)["index"] == {"go": "https://go.example/"}
    assert parse_policy(policy_to_toml(policy)) == policy


def found(name: str, files: dict[str, str]) -> Answer:
    return PRESETS[name].read(files)


@pytest.mark.parametrize(
    ("name", "files", "index"),
    [
        (
            "pip",
            {
                "/etc/pip.conf": "[global]\nindex-url = https://a.example/simple\n"
                "extra-index-url = https://more.example/\n",
                "/root/.config/pip/pip.conf": "[global]\nindex-url = https://b.example/simple\n",
            },
            "https://b.example/simple",
        ),
        ("npm", {"/etc/npmrc": "registry=https://npm.example\n@a:registry=https://x.example/\n"},
         "https://npm.example/"),
        ("go", {"/root/.config/go/env": "GOPROXY=https://go.example|direct\nGOSUMDB=sum.example\n"},
         "https://go.example/"),
        ("gem", {"/etc/gemrc": ":sources:\n- https://gems.example/\n"}, ""),
    ],
)  # fmt: skip
def test_a_preset_also_configures(name: str, files: dict[str, str], index: str) -> None:
    answer = found(name, files)
    assert answer.index == index
    policy = parse_policy(f'{HEAD}[preset]\nuse = ["{name}"]')
    made = expanded(policy, {name: answer})
    assert made.index == (PackageIndexes(**{name: index}) if index else PackageIndexes())


def test_the_policys_own_index_goes_before_that_of_a_preset() -> None:
    policy = parse_policy(f'{HEAD}[preset]\nuse = ["npm"]\n[index]\nnpm = "https://own.example/"\n')
    answers = {"npm": found("npm", {"/etc/npmrc": "registry=https://host.example/"})}
    assert expanded(policy, answers).index.npm == "https://own.example/"


def test_a_mirror_with_a_password_opens_its_host_and_configures_nothing() -> None:
    answer = found("pip", {"/etc/pip.conf": "[global]\nindex-url = https://u:hunter2@pip.example/"})
    assert answer.index == "" and [place.to.host.text for place in answer.places] == ["pip.example"]
    assert answer.notes == (
        "/etc/pip.conf: not configured in sandboxes: the URL has a user or a password",
    )


def test_an_index_that_no_rule_allows_is_remarked() -> None:
    policy = with_index('pip = "https://mirror.example:8443/simple"')
    (remark,) = lint(policy, lambda _: False, UpstreamTable(()))
    assert remark.path == "index.pip" and remark.what == "no rule allows mirror.example:8443"
    rule = '[[egress]]\nhosts = ["mirror.example"]\nports = [8443]\n'
    opened = parse_policy(policy_to_toml(policy) + rule)
    assert not lint(opened, lambda _: False, UpstreamTable(()))


def test_another_index_is_neither_wider_nor_narrower() -> None:
    old, new = parse_policy(HEAD), with_index('go = "https://go.example/"')
    (change,) = compare(old, new)
    assert (change.direction, change.where) == ("other", "index.go")
    assert change.what == "its default is now https://go.example/"

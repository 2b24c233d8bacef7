"""Hypothesis strategies for policies and for what is asked of them.

The alphabets are tiny on purpose: patterns and subjects must meet often, in both cases.
"""

import json
from collections.abc import Sequence
from itertools import product
from typing import Any, Final, cast

from attrs import evolve
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from gitmoat.wire.git.receivepack import Change, Command, ObjectId, RefName
from gitmoat.wire.git.repository_name import RepositoryPath
from gitmoat.wire.hostname import Destination, HostName
from netpolicy.format.document import policy_from_mapping, policy_to_mapping
from netpolicy.patterns.matchers import HostPattern, RefPattern, RepoPattern
from netpolicy.policy import (
    Effect,
    EgressRule,
    EgressTest,
    GitRule,
    GitTest,
    Limits,
    PackageIndexes,
    Policy,
    PushRule,
    Scheme,
    Session,
    Tier,
)
from netpolicy.presets.names import PRESETS
from netpolicy.rule_kind import Missing

EFFECTS: Final[tuple[Effect, ...]] = ("allow", "deny")
NONE: Final = ObjectId("0" * 40)
SOME: Final = ObjectId("a" * 40)
OBJECTS: Final = {
    Change.CREATE: (NONE, SOME),
    Change.UPDATE: (SOME, SOME),
    Change.DELETE: (SOME, NONE),
}

# Drawing policies may take long on a busy machine; that is no fault of what is tested.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def _texts(alphabet: str, longest: int) -> list[str]:
    sizes = range(1, longest + 1)
    return ["".join(letters) for size in sizes for letters in product(alphabet, repeat=size)]


COMPANIONS: Final = ["a.wiki", "b.Wiki", "a.wiki.wiki", "wiki"]
words = st.sampled_from([*_texts("abA", 3), *COMPANIONS])
globs = st.sampled_from(
    [text for text in _texts("abA*", 4) if "**" not in text] + ["*.wiki", *COMPANIONS]
)
pattern_segments = st.lists(globs | st.just("**"), min_size=1, max_size=4)
subject_segments = st.lists(words, min_size=1, max_size=5)

upstream_names = st.sampled_from(["github", "corp"])
repositories = subject_segments.map("/".join).map(RepositoryPath)
repo_patterns = st.builds(RepoPattern, upstream_names, pattern_segments.map("/".join))
ref_names = subject_segments.map(lambda parts: RefName("refs/heads/" + "/".join(parts)))
tiers = st.sampled_from(Tier)
whos = st.sets(tiers, min_size=1).map(frozenset)
changes = st.sampled_from(Change)
commands = st.builds(lambda change, ref: Command(*OBJECTS[change], ref), changes, ref_names)


def _under(prefix: str) -> st.SearchStrategy[tuple[RefPattern, ...]]:
    pattern = pattern_segments.map(lambda parts: RefPattern(prefix + "/".join(parts)))
    return st.lists(pattern, max_size=2, unique=True).map(tuple)


def _sensible(rule: PushRule) -> bool:
    named = rule.branches or rule.tags or rule.refs
    return bool(named) and (rule.create or rule.update or rule.delete)


push_rules = st.builds(
    PushRule,
    branches=_under("refs/heads/"),
    tags=_under("refs/tags/"),
    refs=_under("refs/heads/") | _under("refs/notes/"),
    create=st.booleans(),
    update=st.booleans(),
    delete=st.booleans(),
    workflows=st.just(False),
).filter(_sensible)

_repos = st.lists(repo_patterns, min_size=1, max_size=3, unique=True).map(tuple)
git_rules = st.builds(
    GitRule,
    id=st.just(""),
    effect=st.sampled_from(EFFECTS),
    repos=_repos,
    fetch=st.booleans(),
    push=st.none() | push_rules,
    who=whos,
).filter(lambda rule: rule.effect == "deny" or rule.fetch or rule.push is not None)

_labels = st.sampled_from(_texts("ab1", 2))
host_patterns = st.builds(
    lambda parts: HostPattern(".".join([*parts, "example"])),
    st.lists(_labels | st.sampled_from(["*", "**", "a*"]), min_size=1, max_size=3),
)
host_names = st.lists(_labels, min_size=1, max_size=3).map(
    lambda parts: HostName(".".join([*parts, "example"]))
)
ports = st.sampled_from([22, 80, 443, 8443])
_hosts = st.lists(host_patterns, min_size=1, max_size=3, unique=True).map(tuple)
_methods = st.lists(st.sampled_from(["GET", "HEAD", "POST"]), min_size=1, unique=True).map(tuple)


def _ports(least: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(ports, min_size=least, max_size=3, unique=True).map(tuple)


def _allowing(scheme: Scheme) -> st.SearchStrategy[EgressRule]:
    return st.builds(
        EgressRule,
        id=st.just(""),
        effect=st.just("allow"),
        hosts=_hosts,
        ports=_ports(1),
        scheme=st.just(scheme),
        methods=_methods if scheme == "http" else st.just(()),
        allow_shared=st.booleans(),
        allow_private=st.booleans(),
    )


egress_rules = (
    _allowing("tls")
    | _allowing("http")
    | st.builds(EgressRule, id=st.just(""), effect=st.just("deny"), hosts=_hosts, ports=_ports(0))
)


@st.composite
def policy_tests(draw: st.DrawFn) -> GitTest:
    push = draw(st.booleans())
    return GitTest(
        expect=draw(st.sampled_from(EFFECTS)),
        who=draw(tiers),
        upstream=draw(upstream_names),
        repository=draw(repositories),
        ref=draw(ref_names) if push else None,
        change=draw(changes) if push else Change.UPDATE,
    )


destinations = st.builds(Destination, host_names, ports)
schemes: st.SearchStrategy[Scheme] = st.sampled_from(["tls", "http"])
egress_tests = st.builds(EgressTest, st.sampled_from(EFFECTS), destinations, schemes)


index_urls = st.sampled_from(["", "https://mirror.example/simple/", "http://go.example:8081/"])


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Any policy that a document can express."""
    git = draw(st.lists(git_rules, max_size=4))
    egress = draw(st.lists(egress_rules, max_size=2))
    return Policy(
        name=draw(words),
        session=Session(draw(st.integers(1, 86400)), draw(st.integers(1, 86400))),
        limits=draw(st.builds(Limits, *[st.integers(1, 1000)] * 8)),
        git=tuple(evolve(rule, id=f"g{n}") for n, rule in enumerate(git)),
        egress=tuple(evolve(rule, id=f"e{n}") for n, rule in enumerate(egress)),
        presets=tuple(draw(st.lists(st.sampled_from(PRESETS), max_size=3, unique=True))),
        tests=tuple(draw(st.lists(policy_tests() | egress_tests, max_size=3))),
        index=draw(st.builds(PackageIndexes, index_urls, index_urls, index_urls)),
    )


def edited(policy: Policy, missing: Sequence[Missing]) -> Policy:
    """The policy after its file was edited as the nearest change says."""
    data: Any = json.loads(json.dumps(policy_to_mapping(policy)))
    for each in missing:
        rules = data[each.kind]
        if not each.rule:
            rules.append({"id": "new", **cast(dict[str, object], each.value)})
            continue
        (rule,) = (rule for rule in rules if rule["id"] == each.rule)
        *tables, key = each.key.split(".")
        table = rule[tables[0]] if tables else rule
        if not key:
            rules.remove(rule)
        elif isinstance(each.value, bool | dict):
            table[key] = each.value
        else:
            table[key].append(each.value)
    return policy_from_mapping(data)

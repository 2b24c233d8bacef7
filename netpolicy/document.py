"""A policy document, TOML or the mapping inside a grant, to a Policy and back.

The mapping has the document's own shape, every default written out: one parser reads both.
"""

import tomllib
from collections.abc import Mapping, Sequence

from attrs import asdict

from gitwire.errors import Malformed
from gitwire.hostname import Destination, parse_destination
from gitwire.receivepack import Change, RefName, parse_ref
from gitwire.repository import RepositoryPath
from netpolicy.keys import (
    EFFECTS,
    EGRESS_HTTP,
    GIT,
    LIMITS,
    PRESET,
    PUSH,
    SCHEMES,
    SESSION,
    Key,
    egress_keys,
    parse_name,
    parse_tier,
    read_keys,
)
from netpolicy.matchers import BadPattern, parse_repo_name
from netpolicy.policy import (
    READING,
    USUAL_PORTS,
    Effect,
    EgressRule,
    EgressTest,
    GitRule,
    Limits,
    Policy,
    PolicyTest,
    PushRule,
    Scheme,
    Session,
    Tier,
)
from netpolicy.reading import PolicyError, Table, open_table, parse_at
from netpolicy.units import format_duration
from netpolicy.writing import VERSION, policy_digest, policy_to_mapping

__all__ = [
    "PolicyError",
    "adhoc_policy",
    "parse_policy",
    "policy_digest",
    "policy_from_mapping",
    "policy_to_mapping",
]

MAX_TEXT = 256 * 1024
_CHANGES = {change.value: change for change in Change}
_GIT_TESTS = ("fetch", "push")
_EGRESS_TESTS: dict[str, Scheme] = {"tunnel": "tls", "http": "http"}
_Target = tuple[tuple[str, RepositoryPath], RefName | None, Change]


def parse_policy(text: str) -> Policy:
    """Read a policy file's text; PolicyError names the key path of the first fault."""
    if len(text) > MAX_TEXT:
        raise PolicyError("", f"longer than {MAX_TEXT} characters")
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PolicyError("", f"not TOML: {error}") from None
    except ValueError:  # of int(), which reads some thousand digits
        raise PolicyError("", "not TOML: a number has too many digits") from None
    except RecursionError:
        raise PolicyError("", "not TOML: nested too deeply") from None
    return policy_from_mapping(data)


def policy_from_mapping(data: Mapping[str, object]) -> Policy:
    table = open_table(data)
    _check_version(table)
    policy = Policy(
        name=table.parsed("name", parse_name),
        session=_session(table.table("session")),
        limits=_limits(table.table("limits")),
        git=tuple(_git_rule(rule, n) for n, rule in enumerate(table.tables("git"), 1)),
        egress=tuple(_egress_rule(rule, n) for n, rule in enumerate(table.tables("egress"), 1)),
        presets=_presets(table.table("preset")),
        tests=tuple(map(_test, table.tables("test"))),
    )
    table.close()
    _check_ids(policy)
    return policy


def _check_version(table: Table) -> None:
    hint = f"write `version = {VERSION}`"
    if not table.has("version"):
        raise PolicyError("version", "is missing", hint)
    version = table.take("version")
    if type(version) is not int or version != VERSION:
        raise PolicyError("version", "is not one this program reads", hint)


def _check_ids(policy: Policy) -> None:
    seen: set[str] = set()
    named = [(f"git[{index}].id", rule.id) for index, rule in enumerate(policy.git)]
    named += [(f"egress[{index}].id", rule.id) for index, rule in enumerate(policy.egress)]
    for path, name in named:
        if name in seen:
            raise PolicyError(path, "is used by another rule")
        seen.add(name)


def _session(table: Table) -> Session:
    default = Session()
    values = read_keys(table, SESSION, asdict(default) | {"max_ttl": 0})
    table.close()
    longest = values["max_ttl"] or max(values["ttl"], default.max_ttl)
    if longest < values["ttl"]:
        raise PolicyError(table.at("max_ttl"), "is shorter than ttl")
    return Session(**values | {"max_ttl": longest})


def _limits(table: Table) -> Limits:
    values = read_keys(table, LIMITS, asdict(Limits()))
    table.close()
    return Limits(**values)


def _presets(table: Table) -> tuple[str, ...]:
    values = read_keys(table, PRESET, {})
    table.close()
    return tuple(values["use"])


def _git_rule(table: Table, number: int) -> GitRule:
    effect = table.choice("effect", EFFECTS, "allow")
    # Forgetting `who` must never open anything: an allow rule is then for the gate only,
    # a deny rule is for everybody.
    who = tuple(Tier) if effect == "deny" else (Tier.HELPER,)
    defaults = {"id": f"git-{number}", "fetch": False, "who": who}
    values = read_keys(table, GIT, defaults, effect=effect)
    rule = GitRule(**values | {"who": frozenset(values["who"])}, push=_push(table, effect))
    table.close()
    if not rule.repos:
        raise PolicyError(table.at("repos"), "names no repository")
    if not rule.who:
        raise PolicyError(table.at("who"), "is empty", "leave it out, or list helper or untrusted")
    if effect == "allow" and not rule.fetch and rule.push is None:
        raise PolicyError(table.path, "allows nothing", "add `fetch = true` or `push = {...}`")
    return rule


def _push(table: Table, effect: Effect) -> PushRule | None:
    if not table.has("push"):
        table.take("push")
        return None
    push = table.table("push")
    denied = effect == "deny"
    defaults = {"create": True, "update": True, "delete": denied}
    rule = PushRule(**read_keys(push, PUSH, {"workflows": False, "options": False} | defaults))
    push.close()
    _check_push(push, rule, denied)
    return rule


def _check_push(table: Table, rule: PushRule, denied: bool) -> None:
    if not (rule.branches or rule.tags or rule.refs):
        raise PolicyError(table.path, "names no ref", 'add `branches = ["agent/**"]`')
    if not (rule.create or rule.update or rule.delete):
        raise PolicyError(table.path, "covers no change", "set create, update or delete")
    for key, value in (("workflows", rule.workflows), ("options", rule.options)):
        if denied and value:
            raise PolicyError(table.at(key), "has no meaning in a deny rule")


def _egress_rule(table: Table, number: int) -> EgressRule:
    effect = table.choice("effect", EFFECTS, "allow")
    denied = effect == "deny"
    scheme: Scheme = "tls" if denied else table.choice("scheme", SCHEMES, "tls")
    keys = egress_keys(effect, scheme)
    _check_meaning(table, keys, "deny" if denied else scheme)
    defaults = {
        "id": f"egress-{number}",
        "ports": () if denied else (USUAL_PORTS[scheme],),
        "methods": READING,
        "allow_shared": False,
        "allow_private": False,
    }
    rule = EgressRule(**read_keys(table, keys, defaults, effect=effect, scheme=scheme))
    table.close()
    if not rule.hosts:
        raise PolicyError(table.at("hosts"), "names no host")
    if not denied and not rule.ports:
        raise PolicyError(table.at("ports"), "names no port")
    if scheme == "http" and not denied and not rule.methods:
        raise PolicyError(table.at("methods"), "names no method")
    return rule


def _check_meaning(table: Table, keys: Sequence[Key], which: str) -> None:
    meant = {key.name for key in keys}
    for key in EGRESS_HTTP:
        if key.name not in meant and table.has(key.name):
            hint = "what is inside TLS cannot be seen" if which == "tls" else ""
            raise PolicyError(table.at(key.name), f"has no meaning in a {which} rule", hint)


def _test(table: Table) -> PolicyTest | EgressTest:
    expect = table.choice("expect", EFFECTS)
    asked = [key for key in (*_GIT_TESTS, *_EGRESS_TESTS) if table.has(key)]
    if len(asked) != 1:
        raise PolicyError(table.path, "must have one of: fetch, push, tunnel, http")
    test = _git_test(table, expect) if asked[0] in _GIT_TESTS else _egress_test(table, expect)
    table.close()
    return test


def _egress_test(table: Table, expect: Effect) -> EgressTest:
    for key in ("who", "change"):
        if table.has(key):
            raise PolicyError(table.at(key), "has no meaning for a host")
    (key,) = (key for key in _EGRESS_TESTS if table.has(key))
    return EgressTest(expect, table.parsed(key, _destination), _EGRESS_TESTS[key])


def _destination(text: str) -> Destination:
    try:
        return parse_destination(text.encode())
    except Malformed as error:
        raise BadPattern(error.what, 'write "host.example:443"') from None


def _git_test(table: Table, expect: Effect) -> PolicyTest:
    who = (
        table.parsed("who", parse_tier)
        if table.has("who")
        else parse_tier(table.text("who", "helper"))
    )
    repository, ref, change = _push_test(table) if table.has("push") else _fetch_test(table)
    upstream, path = repository
    return PolicyTest(expect, who, upstream, path, ref, change)


def _fetch_test(table: Table) -> _Target:
    if table.has("change"):
        raise PolicyError(table.at("change"), "has no meaning for a fetch")
    return table.parsed("fetch", parse_repo_name), None, Change.UPDATE


def _push_test(table: Table) -> _Target:
    repository, ref = table.parsed("push", _push_target)
    change = table.choice("change", list(_CHANGES), "update")
    return repository, ref, _CHANGES[change]


def _push_target(text: str) -> tuple[tuple[str, RepositoryPath], RefName]:
    repository, space, ref = text.partition(" ")
    if not space:
        raise BadPattern("no ref", 'write "upstream:path refs/heads/name"')
    try:
        return parse_repo_name(repository), parse_ref(ref.encode())
    except Malformed as error:
        raise BadPattern(error.what, "write a full ref name, without wildcards") from None


def adhoc_policy(
    name: str, repos: Sequence[str], push: Sequence[str], agent: bool, ttl: int | None
) -> Policy:
    """What `hostctl run --repo ... --push ...` means: one rule for these repositories alone."""
    for repo in repos:
        parse_at("--repo", repo, parse_repo_name)
    if push and not repos:
        raise PolicyError("--push", "needs a --repo to push to")
    data: dict[str, object] = {"version": VERSION, "name": name}
    if ttl is not None:
        data["session"] = {"ttl": format_duration(ttl)}
    if repos:
        data["git"] = [_adhoc_rule(repos, push, agent)]
    try:
        return policy_from_mapping(data)
    except PolicyError as error:
        raise PolicyError(_option(error.path), error.what, error.hint) from None


def _adhoc_rule(repos: Sequence[str], push: Sequence[str], agent: bool) -> dict[str, object]:
    who = [Tier.HELPER.value, Tier.UNTRUSTED.value] if agent else [Tier.HELPER.value]
    rule: dict[str, object] = {"id": "adhoc", "repos": list(repos), "fetch": True, "who": who}
    return rule | ({"push": {"branches": list(push)}} if push else {})


def _option(path: str) -> str:
    """The option of `hostctl run` that a key path of an ad-hoc policy came from."""
    options = {"git[0].repos": "--repo", "git[0].push": "--push", "session": "--ttl"}
    for prefix, option in options.items():
        if path.startswith(prefix):
            return option
    return path

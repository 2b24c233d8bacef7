"""A policy document, TOML or the mapping inside a grant, to a Policy and back.

The mapping has the document's own shape, every default written out: one parser reads both.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence

from gitwire.errors import Malformed
from gitwire.hostname import Destination, parse_destination
from gitwire.receivepack import Change, RefName, parse_ref
from gitwire.repository import RepositoryPath
from netpolicy.matchers import (
    BadPattern,
    HostPattern,
    parse_branch_pattern,
    parse_ref_pattern,
    parse_repo_name,
    parse_repo_pattern,
    parse_tag_pattern,
)
from netpolicy.policy import (
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
from netpolicy.presets.names import PRESETS
from netpolicy.reading import PolicyError, Table, open_table, parse_at
from netpolicy.units import format_duration, parse_duration, parse_size
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
_MONTH = 30 * 86400
_LARGEST = 1 << 50
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_EFFECTS: tuple[Effect, ...] = ("allow", "deny")
_SCHEMES: tuple[Scheme, ...] = ("tls", "http")
_PORTS: dict[Scheme, tuple[int, ...]] = {"tls": (443,), "http": (80,)}
_READING = ("GET", "HEAD")
_METHOD = re.compile(r"[A-Z]{1,16}")
_NEVER = ("CONNECT", "TRACE")
_TIERS = [tier.value for tier in Tier]
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
        name=table.parsed("name", _name),
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


def _name(text: str) -> str:
    if _NAME.fullmatch(text) is None:
        raise BadPattern("not a name", "at most 63 of A-Z a-z 0-9 . _ -, a letter or digit first")
    return text


def _session(table: Table) -> Session:
    default = Session()
    ttl = table.quantity("ttl", parse_duration, default.ttl, _MONTH)
    session = Session(
        ttl=ttl,
        idle=table.quantity("idle", parse_duration, default.idle, _MONTH),
        max_ttl=table.quantity("max_ttl", parse_duration, max(ttl, default.max_ttl), _MONTH),
    )
    if session.max_ttl < ttl:
        raise PolicyError(table.at("max_ttl"), "is shorter than ttl")
    table.close()
    return session


def _limits(table: Table) -> Limits:
    default = Limits()
    limits = Limits(
        git_requests_per_minute=table.number(
            "git_requests_per_minute", default.git_requests_per_minute, 1_000_000
        ),
        git_concurrency=table.number("git_concurrency", default.git_concurrency, 1000),
        push_max=table.quantity("push_max", parse_size, default.push_max, _LARGEST),
        fetch_max=table.quantity("fetch_max", parse_size, default.fetch_max, _LARGEST),
        session_max=table.quantity("session_max", parse_size, default.session_max, _LARGEST),
        egress_connections=table.number("egress_connections", default.egress_connections, 10_000),
        egress_per_minute=table.number("egress_per_minute", default.egress_per_minute, 1_000_000),
        egress_max=table.quantity("egress_max", parse_size, default.egress_max, _LARGEST),
        egress_idle=table.quantity("egress_idle", parse_duration, default.egress_idle, _MONTH),
        free_refusals=table.number("free_refusals", default.free_refusals, 1_000_000),
    )
    table.close()
    return limits


def _rule_id(table: Table, default: str) -> str:
    return table.parsed("id", _name) if table.has("id") else table.text("id", default)


def _git_rule(table: Table, number: int) -> GitRule:
    effect = table.choice("effect", _EFFECTS, "allow")
    rule = GitRule(
        id=_rule_id(table, f"git-{number}"),
        effect=effect,
        repos=table.parsed_all("repos", parse_repo_pattern),
        fetch=table.flag("fetch", False),
        push=_push(table, effect),
        who=_who(table, effect),
    )
    table.close()
    if not rule.repos:
        raise PolicyError(table.at("repos"), "names no repository")
    if effect == "allow" and not rule.fetch and rule.push is None:
        raise PolicyError(table.path, "allows nothing", "add `fetch = true` or `push = {...}`")
    return rule


def _push(table: Table, effect: Effect) -> PushRule | None:
    if not table.has("push"):
        table.take("push")
        return None
    push = table.table("push")
    denied = effect == "deny"
    rule = PushRule(
        branches=push.parsed_all("branches", parse_branch_pattern),
        tags=push.parsed_all("tags", parse_tag_pattern),
        refs=push.parsed_all("refs", parse_ref_pattern),
        create=push.flag("create", True),
        update=push.flag("update", True),
        delete=push.flag("delete", denied),
        workflows=push.flag("workflows", False),
        options=push.flag("options", False),
    )
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


def _who(table: Table, effect: Effect) -> frozenset[Tier]:
    # Forgetting `who` must never open anything: an allow rule is then for the gate only,
    # a deny rule is for everybody.
    if not table.has("who"):
        table.take("who")
        return frozenset(Tier) if effect == "deny" else frozenset({Tier.HELPER})
    who = table.parsed_all("who", _tier)
    if not who:
        raise PolicyError(table.at("who"), "is empty", "leave it out, or list helper or untrusted")
    return frozenset(who)


def _tier(text: str) -> Tier:
    if text not in _TIERS:
        raise BadPattern("not one of: " + ", ".join(_TIERS))
    return Tier(text)


def _egress_rule(table: Table, number: int) -> EgressRule:
    denied = table.choice("effect", _EFFECTS, "allow") == "deny"
    name = _rule_id(table, f"egress-{number}")
    rule = _egress_deny(table, name) if denied else _egress_allow(table, name)
    table.close()
    if not rule.hosts:
        raise PolicyError(table.at("hosts"), "names no host")
    return rule


def _egress_deny(table: Table, name: str) -> EgressRule:
    for key in ("scheme", "methods", "allow_shared", "allow_private"):
        if table.has(key):
            raise PolicyError(table.at(key), "has no meaning in a deny rule")
    hosts = table.parsed_all("hosts", HostPattern)
    return EgressRule(name, "deny", hosts, table.numbers("ports", (), 65535))


def _egress_allow(table: Table, name: str) -> EgressRule:
    scheme = table.choice("scheme", _SCHEMES, "tls")
    rule = EgressRule(
        id=name,
        effect="allow",
        hosts=table.parsed_all("hosts", HostPattern),
        ports=table.numbers("ports", _PORTS[scheme], 65535),
        scheme=scheme,
        methods=_methods(table, scheme),
        allow_shared=table.flag("allow_shared", False),
        allow_private=table.flag("allow_private", False),
    )
    if not rule.ports:
        raise PolicyError(table.at("ports"), "names no port")
    return rule


def _methods(table: Table, scheme: Scheme) -> tuple[str, ...]:
    given = table.has("methods")
    methods = table.parsed_all("methods", _method)
    if scheme == "tls" and given:
        what = "has no meaning in a tls rule"
        raise PolicyError(table.at("methods"), what, "what is inside TLS cannot be seen")
    if scheme == "http" and not given:
        return _READING
    if scheme == "http" and not methods:
        raise PolicyError(table.at("methods"), "names no method")
    return methods


def _method(text: str) -> str:
    if _METHOD.fullmatch(text) is None or text in _NEVER:
        raise BadPattern("not a method that is passed on", "like GET, HEAD, POST; never CONNECT")
    return text


def _presets(table: Table) -> tuple[str, ...]:
    presets = table.parsed_all("use", _preset)
    table.close()
    return presets


def _preset(text: str) -> str:
    if text not in PRESETS:
        raise BadPattern("not a preset", "there are: " + ", ".join(PRESETS))
    return text


def _test(table: Table) -> PolicyTest | EgressTest:
    expect = table.choice("expect", _EFFECTS)
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
    who = table.parsed("who", _tier) if table.has("who") else _tier(table.text("who", "helper"))
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

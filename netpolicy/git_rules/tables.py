"""A `[[git]]` table, and a `[[test]]` about a repository, to values and back."""

from gitmoat.wire.git.receivepack import Change, RefName, parse_ref
from gitmoat.wire.git.repository_name import RepositoryPath
from gitmoat.wire.malformed import Malformed
from netpolicy.format.key_rows import (
    EFFECT,
    EFFECTS,
    ID,
    Key,
    flag,
    listed,
    parse_tier,
    patterns,
    read_keys,
    write_keys,
)
from netpolicy.format.reading import PolicyError, Table
from netpolicy.patterns.matchers import (
    BadPattern,
    parse_branch_pattern,
    parse_ref_pattern,
    parse_repo_name,
    parse_repo_pattern,
    parse_tag_pattern,
)
from netpolicy.policy import Effect, GitRule, GitTest, PushRule, Tier

_WHO = listed("who", parse_tier)
KEYS = (
    ID,
    EFFECT,
    patterns("repos", parse_repo_pattern),
    flag("fetch"),
    # Written in one order, however the file lists them.
    Key("who", _WHO.read, lambda who: [tier.value for tier in Tier if tier in who]),
)
PUSH_KEYS = (
    patterns("branches", parse_branch_pattern, "refs/heads/"),
    patterns("tags", parse_tag_pattern, "refs/tags/"),
    patterns("refs", parse_ref_pattern),
    flag("create"),
    flag("update"),
    flag("delete"),
    flag("workflows"),
    flag("options"),
)
TEST_KEYS = ("fetch", "push")
_CHANGES = {change.value: change for change in Change}
_Target = tuple[tuple[str, RepositoryPath], RefName | None, Change]


def read_rule(table: Table, number: int) -> GitRule:
    effect = table.choice("effect", EFFECTS, "allow")
    # Forgetting `who` must never open anything: an allow rule is then for the gate only,
    # a deny rule is for everybody.
    who = tuple(Tier) if effect == "deny" else (Tier.HELPER,)
    defaults = {"id": f"git-{number}", "fetch": False, "who": who}
    values = read_keys(table, KEYS, defaults, effect=effect)
    rule = GitRule(**values | {"who": frozenset(values["who"])}, push=_push(table, effect))
    table.close()
    if not rule.repos:
        raise PolicyError(table.at("repos"), "names no repository")
    if not rule.who:
        raise PolicyError(table.at("who"), "is empty", "leave it out, or list helper or untrusted")
    if effect == "allow" and not rule.fetch and rule.push is None:
        raise PolicyError(table.path, "allows nothing", "add `fetch = true` or `push = {...}`")
    return rule


def write_rule(rule: GitRule) -> dict[str, object]:
    push = {} if rule.push is None else {"push": write_keys(PUSH_KEYS, rule.push)}
    return write_keys(KEYS, rule) | push


def _push(table: Table, effect: Effect) -> PushRule | None:
    if not table.has("push"):
        table.take("push")
        return None
    push = table.table("push")
    denied = effect == "deny"
    defaults = {"create": True, "update": True, "delete": denied}
    rule = PushRule(**read_keys(push, PUSH_KEYS, {"workflows": False, "options": False} | defaults))
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


def read_test(table: Table, expect: Effect) -> GitTest:
    given = table.has("who")
    who = table.parsed("who", parse_tier) if given else Tier(table.text("who", Tier.HELPER.value))
    repository, ref, change = _push_test(table) if table.has("push") else _fetch_test(table)
    upstream, path = repository
    return GitTest(expect, who, upstream, path, ref, change)


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


def write_test(test: GitTest) -> dict[str, object]:
    mapping: dict[str, object] = {"expect": test.expect, "who": test.who.value}
    repository = f"{test.upstream}:{test.repository.text}"
    if test.ref is None:
        return mapping | {"fetch": repository}
    return mapping | {"push": f"{repository} {test.ref.text}", "change": test.change.value}

"""What a policy lacks to allow what it denies: the fewest edits of its file, in words.

Rules that deny are named first, because they beat any other. Then comes what the nearest rule that
allows lacks, or a rule of its own when none is near.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from attrs import frozen

from gitwire.hostname import Destination
from gitwire.receivepack import Change, RefName
from netpolicy.decision import Allow
from netpolicy.egress import EgressAllow, decide_egress, rules_naming
from netpolicy.explain import decide_test
from netpolicy.matchers import RefPattern, RepoPattern
from netpolicy.policy import USUAL_PORTS, EgressRule, GitRule, Policy, PolicyTest, Scheme
from netpolicy.toml_text import inline, value_text


@frozen
class Missing:
    """One edit. Without a rule's id, `value` is a new rule; without a key, the rule denies it; a
    flag or a table is the key's value, and anything else one more entry of the key's list."""

    kind: str
    rule: str
    key: str
    value: object = None
    note: str = ""

    @property
    def words(self) -> str:
        if isinstance(self.value, Mapping) and not self.rule:
            return f"add a rule: [[{self.kind}]] {inline(self.value)}{self.note}"
        if not self.key:
            return f"rule {self.rule} denies it, and deny beats allow: change that rule"
        if isinstance(self.value, bool):
            return f"in rule {self.rule}: set {self.key} = {value_text(self.value)}"
        if isinstance(self.value, Mapping):
            return f"in rule {self.rule}: add {self.key} = {value_text(self.value)}"
        return f"in rule {self.rule}: add {value_text(self.value)} to {self.key}"


def nearest_change(policy: Policy, wish: PolicyTest, fold: bool) -> tuple[Missing, ...]:
    """Nothing when it is allowed. BadPattern for a ref that no pattern can spell."""
    if isinstance(decide_test(policy, wish, fold), Allow):
        return ()
    denying = [Missing("git", rule.id, "") for rule in policy.git if _denies(rule, wish, fold)]
    near = [
        list(_lacks(rule, wish))
        for rule in policy.git
        if rule.effect == "allow" and _names(rule, wish, fold)
    ]
    own = [Missing("git", "", "", _own_rule(wish))] if not near else min(near, key=len)
    return (*denying, *own)


def _denies(rule: GitRule, wish: PolicyTest, fold: bool) -> bool:
    if rule.effect == "allow" or not rule.applies(wish.upstream, wish.repository, wish.who, fold):
        return False
    if rule.denies_everything:
        return True
    if wish.ref is None:
        return rule.fetch
    push = rule.push
    return push is not None and push.includes(wish.change) and push.covers(wish.ref, rule.effect)


def _names(rule: GitRule, wish: PolicyTest, fold: bool) -> bool:
    return any(pattern.matches(wish.upstream, wish.repository, fold) for pattern in rule.repos)


def _lacks(rule: GitRule, wish: PolicyTest) -> Iterator[Missing]:
    if wish.who not in rule.who:
        yield Missing("git", rule.id, "who", wish.who.value)
    if wish.ref is None:
        if not rule.fetch:
            yield Missing("git", rule.id, "fetch", True)
    elif rule.push is None:
        yield Missing("git", rule.id, "push", _own_push(wish.ref, wish.change))
    else:
        if not rule.push.covers(wish.ref, rule.effect):
            key, short = _spelling(wish.ref)
            yield Missing("git", rule.id, f"push.{key}", short)
        if not rule.push.includes(wish.change):
            yield Missing("git", rule.id, f"push.{wish.change.value}", True)


def _spelling(ref: RefName) -> tuple[str, str]:
    """The key of `push` that a ref belongs under, and how it is written there."""
    RefPattern(ref.text)
    for key, prefix in (("branches", "refs/heads/"), ("tags", "refs/tags/")):
        short = ref.text.removeprefix(prefix)
        if short != ref.text and not short.startswith("refs/"):
            return key, short
    return "refs", ref.text


def _own_rule(wish: PolicyTest) -> dict[str, object]:
    repository = RepoPattern(wish.upstream, wish.repository.text).text
    rule: dict[str, object] = {"repos": [repository]}
    if wish.ref is None:
        rule["fetch"] = True
    else:
        rule["push"] = _own_push(wish.ref, wish.change)
    return rule | {"who": [wish.who.value]}


def _own_push(ref: RefName, change: Change) -> dict[str, object]:
    key, short = _spelling(ref)
    push: dict[str, object] = {key: [short]}
    if change is Change.DELETE:
        push |= {"create": False, "update": False, "delete": True}
    return push


def nearest_host_change(
    policy: Policy, to: Destination, scheme: Scheme, git_hosts: Collection[str]
) -> tuple[Missing, ...]:
    """Nothing when it is allowed. BadPattern for a host that no rule can name."""
    if isinstance(decide_egress(policy, to, scheme, git_hosts), EgressAllow):
        return ()
    denying = [
        Missing("egress", rule.id, "")
        for rule in policy.egress
        if rule.effect == "deny" and rule.applies(to.host) and rule.covers(to.port)
    ]
    rules = rules_naming(policy, to.host, git_hosts)
    if any(rule.scheme == scheme and rule.covers(to.port) for rule in rules):
        return tuple(denying)
    return (*denying, _allowing(rules, to, scheme, git_hosts))


def _allowing(
    rules: Sequence[EgressRule], to: Destination, scheme: Scheme, git_hosts: Collection[str]
) -> Missing:
    """One more port of a rule that names this host alone, or else a rule of its own."""
    for rule in rules:
        if rule.scheme == scheme and [each.text for each in rule.hosts] == [to.host.text]:
            return Missing("egress", rule.id, "ports", to.port)
    EgressRule.of_place("", to, scheme)
    own: dict[str, object] = {"hosts": [to.host.text]}
    if to.port != USUAL_PORTS[scheme]:
        own["ports"] = [to.port]
    if scheme == "http":
        own["scheme"] = "http"
    note = "; git itself needs no such rule" if to.host.text in git_hosts else ""
    return Missing("egress", "", "", own, note)

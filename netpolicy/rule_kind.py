"""One kind of rule, and everything that is done with rules of it.

`kinds` has the table. Whoever reads, writes, narrows, compares, explains, learns, checks or tries
rules goes through it and never asks of which kind a rule is. No part of a record has a default: a
kind to which one of them does not apply has a function there that does nothing.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from attrs import field, frozen

from gitmoat.wire.git.repository_name import RepositoryPath
from netpolicy.decision import Allow, Deny, PushDenied
from netpolicy.format.key_rows import KeyChange
from netpolicy.format.reading import Table
from netpolicy.format.toml_text import inline, value_text
from netpolicy.policy import Ceiling, Effect, Policy, Tier
from netpolicy.presets.places import Answer
from netpolicy.upstreams import UpstreamTable

R = TypeVar("R", bound="Rule")
T = TypeVar("T", bound="Test")
Verdict = Allow | Deny | PushDenied
IsShared = Callable[[str], bool]  # is this domain a public suffix?


class Rule(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def effect(self) -> Effect: ...


class Test(Protocol):
    @property
    def expect(self) -> Effect: ...


@frozen
class NamedRepository:
    """One repository; `fold` says whether its upstream ignores case."""

    upstream: str
    path: RepositoryPath
    fold: bool


@frozen
class Options:
    """What `hostctl run` was told besides a policy, or in place of one: these repositories, these
    branches to push to, these hosts, git for the command itself, this long."""

    repos: tuple[NamedRepository, ...] = ()
    push: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    agent: bool = False
    ttl: int | None = None


@frozen
class GitServers:
    """What a decision has to know of the git servers: which upstreams ignore case in the names of
    repositories, and the names of all hosts that are git servers."""

    folds: Callable[[str], bool]
    hosts: Collection[str]


@frozen
class Question:
    """What `policy explain` asks: `ref` is None where none was named, and `locate` finds the
    upstream and the path of a repository however people type it."""

    operation: str
    subject: str
    ref: str | None
    tier: Tier
    locate: Callable[[str], tuple[str, str]]


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


@frozen
class Remark:
    """`path` is the key it is about; `refused`: nothing runs with it until it is corrected."""

    path: str
    what: str
    hint: str
    refused: bool = False


@frozen
class CheckContext:
    """What a policy is checked against; an empty table of upstreams is one that is not known."""

    upstreams: UpstreamTable
    is_shared: IsShared


@frozen
class Refused:
    """One refusal of the audit; `to` is `host:port`, or for a DNS question just `host`."""

    op: str
    code: str
    to: str
    count: int = 1


@frozen
class Suggestion:
    """A rule that would allow what was refused, under a provisional id; `told`: for programs."""

    rule: Any
    count: int
    told: Mapping[str, object]


@frozen
class Learned:
    """`presets`: what each preset would allow, and how often that was refused."""

    suggestions: tuple[Suggestion, ...] = ()
    presets: Mapping[str, Mapping[str, int]] = field(factory=dict)
    notes: tuple[str, ...] = ()


@frozen
class Kind(Generic[R, T]):
    """`name` is the name of its tables in a document, and of its field in a Policy."""

    name: str
    rule: type[R]
    # A table to a rule, which has this number in the document, and back.
    read: Callable[[Table, int], R]
    write: Callable[[R], dict[str, object]]
    # Whether the mapping has it also without a rule: only the kinds of 0.2.0, for their digests.
    always_written: bool
    # The rules that the options alone ask for; and of rules, what the options leave of them.
    adhoc: Callable[[Options], tuple[R, ...]]
    narrow: Callable[[Policy, Options], tuple[R, ...]]
    # The bound of this kind in a host's ceiling, which sets none as it is made without arguments;
    # and what a bound forbids of a rule that allows.
    bound: type[Any]
    above: Callable[[R, Any], str | None]
    # For `policy diff`: the rule in words, whether it means everything there is, what changed.
    words: Callable[[R], str]
    is_whole: Callable[[R], bool]
    changes: Callable[[R, R], Iterator[KeyChange]]
    # What `policy check` warns of.
    lint: Callable[[Policy, CheckContext], Iterator[Remark]]
    # What would have allowed these refusals.
    learn: Callable[[Policy, Sequence[Refused], Mapping[str, Answer], CheckContext], Learned]
    # The keys of a `[[test]]` that ask about this kind; such a test, read, written, tried.
    test: type[T]
    test_keys: tuple[str, ...]
    read_test: Callable[[Table, Effect], T]
    write_test: Callable[[T], dict[str, object]]
    test_words: Callable[[T], str]
    decide: Callable[[Policy, T, GitServers], Verdict]
    # What `policy explain` may be asked; the question as a test; the nearest change that allows it.
    operations: tuple[str, ...]
    as_test: Callable[[Question], T]
    nearest: Callable[[Policy, T, GitServers], tuple[Missing, ...]]

    def rules(self, policy: Policy) -> tuple[R, ...]:
        rules: tuple[R, ...] = getattr(policy, self.name)
        return rules

    def exceeded(self, policy: Policy, ceiling: Ceiling) -> str | None:
        """What in the policy's rules of this kind exceeds the ceiling, or None."""
        bound = getattr(ceiling, self.name)
        for rule in self.rules(policy):
            if rule.effect == "allow":
                found = f"[[{self.name}]] rules" if bound is None else self.above(rule, bound)
                if found is not None:
                    return found
        return None

"""What a sandbox may do, as frozen values. Documents become these in `document`."""

from enum import Enum
from typing import Any, Literal

from attrs import frozen

from gitmoat.wire.git.receivepack import Change, RefName
from gitmoat.wire.git.repository_name import RepositoryPath
from gitmoat.wire.hostname import Destination, HostName
from netpolicy.patterns.matchers import HostPattern, RefPattern, RepoPattern

Effect = Literal["allow", "deny"]
Scheme = Literal["tls", "http"]
DEFAULT_PORTS: dict[Scheme, int] = {"tls": 443, "http": 80}
DEFAULT_METHODS = ("GET", "HEAD")  # of a plain HTTP rule that names none


class Tier(Enum):
    """Who asks: the git gate on :418, or the command itself on :419."""

    HELPER = "helper"
    UNTRUSTED = "untrusted"

    # Each member is one object. Enum's own __hash__ is a Python function, which would be called a
    # dozen times for every request.
    __hash__ = object.__hash__


@frozen
class Session:
    """Seconds until the hard end, and seconds of silence that end it earlier.

    `max_ttl`: from the beginning or the last renewal to the latest end.
    """

    ttl: int = 8 * 3600
    idle: int = 4 * 3600
    max_ttl: int = 24 * 3600


@frozen
class Limits:
    git_requests_per_minute: int = 120
    git_concurrency: int = 4
    push_max: int = 200 << 20
    fetch_max: int = 4 << 30
    session_max: int = 64 << 30
    egress_connections: int = 64
    egress_per_minute: int = 600
    egress_max: int = 20 << 30
    egress_idle: int = 10 * 60
    free_refusals: int = 10
    push_refs: int = 4000


@frozen
class PushRule:
    """Refs and the kinds of change to them. `update` includes forced updates.

    `options`: the push may carry push options.
    """

    branches: tuple[RefPattern, ...]
    tags: tuple[RefPattern, ...]
    refs: tuple[RefPattern, ...]
    create: bool
    update: bool
    delete: bool
    workflows: bool
    options: bool = False

    def covers(self, ref: RefName, effect: Effect) -> bool:
        patterns = (*self.branches, *self.tags, *self.refs)
        if effect == "deny":
            return any(pattern.denies(ref) for pattern in patterns)
        return any(pattern.matches(ref) for pattern in patterns)

    def includes(self, change: Change) -> bool:
        return {
            Change.CREATE: self.create,
            Change.UPDATE: self.update,
            Change.DELETE: self.delete,
        }[change]


@frozen
class GitRule:
    """An allow rule grants what it lists; a deny rule takes away what it lists."""

    id: str
    effect: Effect
    repos: tuple[RepoPattern, ...]
    fetch: bool
    push: PushRule | None
    who: frozenset[Tier]

    @property
    def denies_everything(self) -> bool:
        """A deny rule that lists neither fetch nor push means the whole repository."""
        return self.effect == "deny" and not self.fetch and self.push is None

    def applies(self, upstream: str, repository: RepositoryPath, tier: Tier, fold: bool) -> bool:
        if tier not in self.who:
            return False
        if self.effect == "deny":
            return any(pattern.denies(upstream, repository) for pattern in self.repos)
        return any(pattern.matches(upstream, repository, fold) for pattern in self.repos)


@frozen
class EgressRule:
    """Hosts that may be reached. A deny rule speaks of every scheme, and without ports of
    every port; `methods` are an http rule's own."""

    id: str
    effect: Effect
    hosts: tuple[HostPattern, ...]
    ports: tuple[int, ...]
    scheme: Scheme = "tls"
    methods: tuple[str, ...] = ()
    allow_shared: bool = False
    allow_private: bool = False

    @classmethod
    def of_place(cls, name: str, to: Destination, scheme: Scheme = "tls") -> "EgressRule":
        """One exact host and one port; by plain HTTP, to read. BadPattern for a host that no rule
        can name."""
        hosts = (HostPattern(to.host.text),)
        methods = DEFAULT_METHODS if scheme == "http" else ()
        return cls(name, "allow", hosts, (to.port,), scheme, methods)

    def applies(self, host: HostName) -> bool:
        return any(pattern.matches(host.text) for pattern in self.hosts)

    def names(self, host: HostName) -> bool:
        """Whether the host is written out, not merely taken in by a wildcard."""
        return any(pattern.text == host.text for pattern in self.hosts)

    def covers(self, port: int) -> bool:
        return port in self.ports or (self.effect == "deny" and not self.ports)


@frozen
class GitTest:
    """An expectation that `policy check` tries; `ref` and `change` are for pushes only."""

    expect: Effect
    who: Tier
    upstream: str
    repository: RepositoryPath
    ref: RefName | None
    change: Change


@frozen
class EgressTest:
    """An expectation about a host: reached through a tunnel (tls), or by plain HTTP."""

    expect: Effect
    to: Destination
    scheme: Scheme


@frozen
class PackageIndexes:
    """Which index each package manager in the sandbox asks; an empty one leaves it its default.

    It only configures: what may be reached is said by rules.
    """

    pip: str = ""
    npm: str = ""
    go: str = ""


@frozen
class Policy:
    name: str
    session: Session
    limits: Limits
    git: tuple[GitRule, ...]
    egress: tuple[EgressRule, ...]
    presets: tuple[str, ...]
    tests: tuple[Any, ...]  # each the test of a kind
    index: PackageIndexes = PackageIndexes()


@frozen
class GitBound:
    """The most that git rules may allow; an empty list of repositories sets no bound."""

    repos: tuple[RepoPattern, ...] = ()
    push: bool = True


@frozen
class EgressBound:
    """The most that rules about other hosts may allow; an empty list of hosts sets no bound.

    `private`: a rule may say `allow_private`.
    """

    hosts: tuple[HostPattern, ...] = ()
    private: bool = True


@frozen
class Ceiling:
    """The most that one host may grant: a bound for each kind of rule, and None for a kind of which
    no rule may allow anything. Without `ttl` sessions last as long as a policy says."""

    git: GitBound | None = None
    egress: EgressBound | None = None
    ttl: int | None = None

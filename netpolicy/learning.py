"""What a sandbox was refused, as suggestions to its owner. Nothing is ever let through to learn.

The names were chosen by untrusted code: a suggestion is one exact name, never a wildcard, never an
address, never a git server.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from attrs import field, frozen

from gitwire.errors import Malformed
from gitwire.hostname import Destination, HostName, parse_destination, parse_host
from netpolicy.egress import EgressAllow, decide_egress
from netpolicy.matchers import BadPattern, HostPattern
from netpolicy.policy import EgressRule, Policy, Scheme
from netpolicy.presets.places import Answer

MOST_RULES = 50
_LEARNED = ("E101", "E102", "E110")
_GIT_SERVER = "E104"


@frozen
class Refused:
    """One record of the audit; `to` is `host:port`, or for a DNS question just `host`."""

    op: str
    code: str
    to: str
    count: int = 1


@frozen
class Wanted:
    """One place, how often it was refused."""

    to: Destination
    scheme: Scheme
    count: int


@frozen
class Lesson:
    presets: tuple[str, ...] = ()
    wanted: tuple[Wanted, ...] = ()
    by_preset: Mapping[str, tuple[Wanted, ...]] = field(factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def rules(self) -> tuple[EgressRule, ...]:
        """A rule for each place that no preset explains."""
        return tuple(
            EgressRule.of_place(f"learned-{number}", each.to, each.scheme)
            for number, each in enumerate(self.wanted, 1)
        )


def learn(
    policy: Policy,
    refused: Iterable[Refused],
    presets: Mapping[str, Answer],
    git_hosts: Collection[str],
    is_shared: Callable[[str], bool],
) -> Lesson:
    """What would have to be allowed, the most wanted first, less what the policy allows by now."""
    places, notes = _places(list(refused), git_hosts, is_shared)
    wanted = [
        each
        for each in sorted(places, key=lambda each: (-each.count, each.to))
        if not isinstance(decide_egress(policy, each.to, each.scheme, git_hosts), EgressAllow)
    ]
    explained = {name: _explained(wanted, found) for name, found in presets.items()}
    explained = {name: found for name, found in explained.items() if found}
    known = {each for found in explained.values() for each in found}
    rest = [each for each in wanted if each not in known]
    if len(rest) > MOST_RULES:
        notes.append(f"{len(rest) - MOST_RULES} more hosts were refused, each less often")
    return Lesson(tuple(explained), tuple(rest[:MOST_RULES]), explained, tuple(notes))


def _places(
    refused: Sequence[Refused], git_hosts: Collection[str], is_shared: Callable[[str], bool]
) -> tuple[list[Wanted], list[str]]:
    counts: dict[tuple[Destination, Scheme], int] = {}
    asked: dict[HostName, int] = {}
    git: dict[str, None] = {}
    strange = 0
    for each in refused:
        to = _destination(each)
        if to is None or not _usable(to.host, is_shared):
            strange += each.count
        elif each.code == _GIT_SERVER or to.host.text in git_hosts:
            git[to.host.text] = None
        elif each.code not in _LEARNED:
            continue  # not a matter of the list: what was sent, or too much of it
        elif each.op == "dns":
            asked[to.host] = asked.get(to.host, 0) + each.count
        else:
            key = (to, _scheme(each))
            counts[key] = counts.get(key, 0) + each.count
    found = [Wanted(to, scheme, count) for (to, scheme), count in counts.items()]
    tried = {each.to.host for each in found}
    # A name that was only asked for: whoever got no address could not try a port.
    found += [
        Wanted(Destination(host, 443), "tls", count)
        for host, count in asked.items()
        if host not in tried
    ]
    return found, _notes(git, strange)


def _notes(git: Iterable[str], strange: int) -> list[str]:
    notes = [f"{host} is a git server: use git, which needs no rule about hosts" for host in git]
    if strange:
        notes.append(f"{strange} refusals were of addresses or of no usable name: not suggested")
    return notes


def _destination(each: Refused) -> Destination | None:
    try:
        if each.op == "dns":
            return Destination(parse_host(each.to.encode()), 443)
        return parse_destination(each.to.encode())
    except (Malformed, UnicodeEncodeError):
        return None


def _usable(host: HostName, is_shared: Callable[[str], bool]) -> bool:
    """A name that a rule can hold, that is more than a domain of everybody's, and no address
    in the form of a name."""
    try:
        HostPattern(host.text)
    except BadPattern:
        return False
    return "." in host.text and not host.text.endswith(".arpa") and not is_shared(host.text)


def _scheme(each: Refused) -> Scheme:
    return "http" if each.op == "http" else "tls"


def _explained(wanted: Sequence[Wanted], found: Answer) -> tuple[Wanted, ...]:
    places = {(place.to, place.scheme) for place in found.places}
    return tuple(each for each in wanted if (each.to, each.scheme) in places)

"""What a sandbox was refused, as suggestions to its owner. Nothing is ever let through to learn.

The names were chosen by untrusted code: a suggestion is one exact name, never a wildcard, never an
address, never a git server.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from attrs import frozen

from gitmoat.wire.hostname import Destination, HostName, parse_destination, parse_host
from gitmoat.wire.malformed import Malformed
from netpolicy.egress_rules.egress_decision import EgressAllow, decide_egress
from netpolicy.patterns.matchers import BadPattern, HostPattern
from netpolicy.policy import EgressRule, Policy, Scheme
from netpolicy.presets.places import Answer
from netpolicy.rule_kind import CheckContext, IsShared, Learned, Refused, Suggestion

MOST_RULES = 50
_LEARNED = ("E101", "E102", "E110")
_GIT_SERVER = "E104"


@frozen
class Wanted:
    """One place, how often it was refused."""

    to: Destination
    scheme: Scheme
    count: int


def learn(
    policy: Policy,
    refused: Sequence[Refused],
    presets: Mapping[str, Answer],
    context: CheckContext,
) -> Learned:
    """What would have to be allowed, the most wanted first, less what the policy allows by now: a
    rule for each place that no preset explains."""
    git_hosts = context.upstreams.names
    places, notes = _places(refused, git_hosts, context.is_shared)
    wanted = [
        each
        for each in sorted(places, key=lambda each: (-each.count, each.to))
        if not isinstance(decide_egress(policy, each.to, each.scheme, git_hosts), EgressAllow)
    ]
    explained = {name: _explained(wanted, found) for name, found in presets.items()}
    known = {each for found in explained.values() for each in found}
    rest = [each for each in wanted if each not in known]
    if len(rest) > MOST_RULES:
        notes.append(f"{len(rest) - MOST_RULES} more hosts were refused, each less often")
    by_preset = {
        name: {each.to.text: each.count for each in found}
        for name, found in explained.items()
        if found
    }
    return Learned(tuple(map(_suggestion, rest[:MOST_RULES])), by_preset, tuple(notes))


def _suggestion(wanted: Wanted) -> Suggestion:
    to = wanted.to
    told = {"host": to.host.text, "port": to.port, "scheme": wanted.scheme, "refused": wanted.count}
    return Suggestion(EgressRule.of_place("learned", to, wanted.scheme), wanted.count, told)


def _places(
    refused: Sequence[Refused], git_hosts: Collection[str], is_shared: IsShared
) -> tuple[list[Wanted], list[str]]:
    counts: dict[tuple[Destination, Scheme], int] = {}
    asked: dict[HostName, int] = {}
    git: dict[str, None] = {}
    unusable = 0
    for each in refused:
        to = _destination(each)
        if to is None or not _usable(to.host, is_shared):
            unusable += each.count
        elif each.code == _GIT_SERVER or to.host.text in git_hosts:
            git[to.host.text] = None
        elif each.code not in _LEARNED:
            continue  # refused for what was sent or how much, not by the list of hosts
        elif each.op == "dns":
            asked[to.host] = asked.get(to.host, 0) + each.count
        else:
            key = (to, _scheme(each))
            counts[key] = counts.get(key, 0) + each.count
    found = [Wanted(to, scheme, count) for (to, scheme), count in counts.items()]
    tried = {each.to.host for each in found}
    # A name that was only looked up: a client that gets no address cannot try a port.
    found += [
        Wanted(Destination(host, 443), "tls", count)
        for host, count in asked.items()
        if host not in tried
    ]
    return found, _notes(git, unusable)


def _notes(git: Iterable[str], unusable: int) -> list[str]:
    notes = [f"{host} is a git server: use git, which needs no [[egress]] rule" for host in git]
    if unusable:
        notes.append(
            f"{unusable} refusals were for addresses or unusable names; no rule is suggested"
        )
    return notes


def _destination(each: Refused) -> Destination | None:
    try:
        if each.op == "dns":
            return Destination(parse_host(each.to.encode()), 443)
        return parse_destination(each.to.encode())
    except (Malformed, UnicodeEncodeError):
        return None


def _usable(host: HostName, is_shared: IsShared) -> bool:
    """A name that a rule can hold, that is longer than a public suffix, and no address in the form
    of a name."""
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

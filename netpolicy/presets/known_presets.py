"""The presets, and a policy with the hosts of its presets written out."""

from collections.abc import Callable, Mapping, Sequence

from attrs import asdict, evolve, frozen

from netpolicy.patterns.matchers import HostPattern
from netpolicy.policy import DEFAULT_METHODS, EgressRule, PackageIndexes, Policy, Scheme
from netpolicy.presets import golang, java, node, python, ruby, rust
from netpolicy.presets.places import Answer, Files, Place


@frozen
class Preset:
    """`files`: globs below `/` in the order in which the tool reads them, `a!b` for the member b
    of the archive a. `read` makes an answer of their texts."""

    name: str
    files: tuple[str, ...]
    read: Callable[[Files], Answer]


PRESETS: Mapping[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset("pip", python.FILES, python.read),
        Preset("npm", node.FILES, node.read),
        Preset("cargo", rust.FILES, rust.read),
        Preset("go", golang.FILES, golang.read),
        Preset("maven", java.FILES, java.read),
        Preset("gem", ruby.FILES, ruby.read),
    )
}


def preset_rules(name: str, places: Sequence[Place]) -> list[EgressRule]:
    """One rule per scheme and port; the rule's id names the preset."""
    reached: dict[tuple[Scheme, int], list[str]] = {}
    for place in places:
        hosts = reached.setdefault((place.scheme, place.to.port), [])
        if place.to.host.text not in hosts:
            hosts.append(place.to.host.text)
    return [
        EgressRule(
            id=f"preset-{name}" + (f"-{number}" if number > 1 else ""),
            effect="allow",
            hosts=tuple(map(HostPattern, hosts)),
            ports=(port,),
            scheme=scheme,
            methods=DEFAULT_METHODS if scheme == "http" else (),
        )
        for number, ((scheme, port), hosts) in enumerate(reached.items(), 1)
    ]


def expanded(policy: Policy, answers: Mapping[str, Answer]) -> Policy:
    """The policy with its presets as rules and indexes, where its own go before those of a preset;
    KeyError for a preset that has no answer."""
    rules = [rule for name in policy.presets for rule in preset_rules(name, answers[name].places)]
    found = {name: answers[name].index for name in policy.presets if answers[name].index}
    own = {name: url for name, url in asdict(policy.index).items() if url}
    index = PackageIndexes(**found | own)
    return evolve(policy, egress=(*policy.egress, *rules), presets=(), index=index)


def rule_notes(answers: Mapping[str, Answer]) -> dict[str, list[str]]:
    """Where the hosts of each preset's rules come from, by the rule's id."""
    notes: dict[str, list[str]] = {}
    for name, found in answers.items():
        for rule in preset_rules(name, found.places):
            hosts = {pattern.text for pattern in rule.hosts}
            notes[rule.id] = [
                f"{place.to.host.text}: from {place.source}"
                for place in found.places
                if place.to.host.text in hosts
                and (place.scheme, place.to.port) == (rule.scheme, rule.ports[0])
            ]
    return notes

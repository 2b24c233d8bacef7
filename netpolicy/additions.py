"""A policy file's text with rules added at its end; what stood there stays, comments too."""

from collections.abc import Iterator, Mapping, Sequence

from attrs import evolve

from netpolicy.document import parse_policy
from netpolicy.policy import EgressRule
from netpolicy.reading import PolicyError
from netpolicy.toml_text import rule_lines
from netpolicy.writing import egress_to_mapping


def with_rules(
    text: str, name: str, rules: Sequence[EgressRule], notes: Mapping[str, Sequence[str]]
) -> str:
    """An empty text becomes a policy of this name; a rule that stands there already is left out."""
    start = text if text.strip() else f'version = 1\nname = "{name}"\n'
    before = parse_policy(start)
    known = {evolve(rule, id="") for rule in before.egress}
    taken = {rule.id for rule in before.git} | {rule.id for rule in before.egress}
    added = list(_fresh([rule for rule in rules if evolve(rule, id="") not in known], taken))
    if not added:
        return text
    blocks = [
        "\n".join(rule_lines("egress", egress_to_mapping(rule), notes.get(named, ())))
        for named, rule in added
    ]
    after = start.rstrip("\n") + "\n\n" + "\n\n".join(blocks) + "\n"
    wanted = evolve(before, egress=(*before.egress, *(rule for _, rule in added)))
    if parse_policy(after) != wanted:
        raise PolicyError("egress", "cannot be added to", "write its rules as [[egress]] tables")
    return after


def _fresh(rules: Sequence[EgressRule], taken: set[str]) -> Iterator[tuple[str, EgressRule]]:
    """Each rule under an id of its own, and the id it came with."""
    for rule in rules:
        name, number = rule.id, 2
        while name in taken:
            name, number = f"{rule.id}-{number}", number + 1
        taken.add(name)
        yield rule.id, evolve(rule, id=name)

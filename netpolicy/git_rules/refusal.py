"""What a sandbox reads when git is refused: the code, and what is allowed."""

import re
from typing import Final

from gitmoat.codes import CODES
from netpolicy.git_rules.words import rule_words
from netpolicy.policy import Policy, Tier

MAX_LINES: Final = 5
MAX_WIDTH: Final = 100
BRAKED: Final = (
    "do not retry: it will be refused again, and every refused request is answered more slowly",
)
_NOT_SHOWN = re.compile(r"[^ -~]")


def refusal_lines(
    code: str,
    request_id: str,
    policy: Policy,
    tier: Tier,
    braked: bool = False,
    hint: str = "",
) -> list[str]:
    """What a sandbox is told: the code, what IS allowed, the id that leads the owner to the rest.

    Made from the code alone, so that unknown and forbidden repositories look the same. `braked`:
    so much was refused lately that answers are slowed down. `hint`: what more the git server said
    of a repository that this tier may see.
    """
    known = CODES[code]
    lines = [f"gitmoat: {known.text} ({known.id})"]
    if hint:
        lines.append(hint)
    if code.startswith(("G1", "G2")):
        lines += allowed_lines(policy, tier)
    if braked:
        lines += BRAKED
    return [*map(_shown, lines), _shown(f"request id: {request_id}")]


def allowed_lines(policy: Policy, tier: Tier) -> list[str]:
    """One line for each rule that allows this tier something, at most five lines."""
    rules = [rule for rule in policy.git if rule.effect == "allow" and tier in rule.who]
    if not rules:
        return [_nothing(tier)]
    if len(rules) <= MAX_LINES:
        return [_shown(f"allowed: {rule_words(rule)}") for rule in rules]
    lines = [_shown(f"allowed: {rule_words(rule)}") for rule in rules[: MAX_LINES - 1]]
    return [*lines, f"allowed: and {len(rules) - len(lines)} more rules"]


def _nothing(tier: Tier) -> str:
    if tier is Tier.UNTRUSTED:
        return "allowed: no git network for this process; the sandbox's owner fetches and pushes"
    return "allowed: no repository"


def _shown(line: str) -> str:
    line = _NOT_SHOWN.sub("?", line)
    return line if len(line) <= MAX_WIDTH else line[: MAX_WIDTH - 3] + "..."

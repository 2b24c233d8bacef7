"""What a client of the proxy is shown when a host is refused: a status line, a header, a few lines.

Most clients print the status line's phrase and nothing else, so the phrase alone must say enough.
"""

from collections.abc import Sequence
from typing import Final

from attrs import frozen

from gitmoat.codes import CODES
from netpolicy.policy import Policy

LONGEST_PHRASE: Final = 120
_MOST: Final = 12


@frozen
class Refusal:
    status: int
    phrase: bytes
    proxy_status: bytes
    body: bytes


def refusal(code: str, subject: str, request_id: str, policy: Policy) -> Refusal:
    """`subject` is the host, or host and port, as it was understood; empty if it was not."""
    known = CODES[code]
    text = f"{known.text} ({code})"
    phrase = f"gitmoat: {subject}: {text}" if subject else f"gitmoat: {text}"
    if len(phrase) > LONGEST_PHRASE:
        phrase = f"gitmoat: {text}"
    lines = [phrase, *_allowed(policy, code), f"request id: {request_id}"]
    return Refusal(
        status=known.proxy,
        phrase=phrase.encode("ascii"),
        proxy_status=f'gitmoat; error={known.proxy_error}; details="{code}"'.encode("ascii"),
        body="".join(f"{line}\n" for line in lines).encode("ascii"),
    )


def _allowed(policy: Policy, code: str) -> Sequence[str]:
    if code not in ("E101", "E102", "E104", "E110"):
        return ()
    places = [
        f"{pattern.text}:{port} ({rule.scheme})"
        for rule in policy.egress
        if rule.effect == "allow"
        for pattern in rule.hosts
        for port in rule.ports
    ]
    if not places:
        return ("allowed: no host at all",)
    more = [f"and {len(places) - _MOST} more"] if len(places) > _MOST else []
    return ("allowed: " + ", ".join([*places[:_MOST], *more]),)

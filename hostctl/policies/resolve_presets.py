"""Presets resolved on this host: what its package managers are configured to fetch from."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from attrs import evolve

from gitmoat.paths import Paths
from hostctl.failure import Failure
from hostctl.policies.rootfiles import trusted_texts
from netpolicy.policy import Policy
from netpolicy.presets.known_presets import PRESETS, expanded
from netpolicy.presets.names import GONE
from netpolicy.presets.places import Answer

_HOST = Path("/")


def resolve(root: Path, names: Iterable[str]) -> dict[str, Answer]:
    """Read anew each time, so that a changed mirror is known at the next start."""
    return {name: _resolve(root, name) for name in names}


def _resolve(root: Path, name: str) -> Answer:
    preset = PRESETS[name]
    texts, notes = trusted_texts(root, preset.files)
    if not texts and not notes and root != _HOST:  # --root is where our own files are
        texts, notes = trusted_texts(_HOST, preset.files)
    found = preset.read(texts)
    return evolve(found, notes=(*notes, *found.notes))


def expand(paths: Paths, policy: Policy) -> tuple[Policy, dict[str, Answer]]:
    """The policy with its presets as rules, and where their hosts come from."""
    for name in policy.presets:
        if name in GONE:
            raise _gone(name)
    answers = resolve(paths.root, policy.presets)
    for name, found in answers.items():
        if not found.places:
            raise _unresolved(name, found)
    return expanded(policy, answers), answers


def _gone(name: str) -> Failure:
    why = f"{name} installs as root, which no sandbox can, so the hosts would be of no use"
    fix = "put the packages into the image or on the host, and take the name out of preset.use"
    return Failure("P105", f"there is no preset {name} any more", why, fix)


def _unresolved(name: str, found: Answer) -> Failure:
    looked = ", ".join(f"/{pattern}" for pattern in PRESETS[name].files[:3])
    why = "; ".join(found.notes) or f"none of its files names a host: {looked}, ..."
    fix = f"configure {name} on this host, or name the hosts in an [[egress]] rule"
    return Failure("P105", f"the preset {name} names no host here", why, fix)

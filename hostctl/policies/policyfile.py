"""Policies as the admin names them: a file, the name of an installed one, or a sandbox's own."""

from __future__ import annotations

import json
import os
from pathlib import Path

from gitmoat.paths import Paths
from hostctl.control_client import ask
from hostctl.failure import NOT_FOUND, Failure
from hostctl.policies.policytext import NAMES, policy_path, read_text
from hostctl.policies.resolve_presets import expand
from hostctl.policies.upstreamtable import known_upstreams
from netpolicy.format.document import (
    PolicyError,
    parse_policy,
    policy_from_mapping,
    policy_to_mapping,
)
from netpolicy.lint import lint
from netpolicy.policy import Policy
from netpolicy.rule_kind import Remark


def named_policy(paths: Paths, name: str) -> Policy:
    """A file's or an installed policy; if there is none of that name, a running sandbox's."""
    path = policy_path(paths, name)
    if "/" in name or name.endswith(".toml") or os.path.lexists(path):
        return effective_policy(paths, path)
    try:
        return sandbox_policy(paths, name)
    except Failure as failure:
        if failure.code not in ("C103", "R103"):
            raise
        what = f"there is no policy and no running sandbox {name!r}"
        why = f"{path} does not exist; {failure.what}"
        raise Failure("P102", what, why, NAMES, exit_code=NOT_FOUND) from None


def load_policy(path: Path) -> Policy:
    return _parsed(path, read_text(path))


def _parsed(path: Path, text: str) -> Policy:
    try:
        return parse_policy(text)
    except PolicyError as error:
        raise invalid_policy(path, error) from None


def load_policy_mapping(paths: Paths, name: str) -> dict[str, object]:
    path = policy_path(paths, name)
    return policy_mapping(paths, path, read_text(path))


def policy_mapping(paths: Paths, path: Path, text: str) -> dict[str, object]:
    """A file's text with its presets resolved, and nothing in it to be corrected first."""
    policy = _resolved(paths, _parsed(path, text))
    remarks_of(paths, path, policy)
    return policy_to_mapping(policy)


def effective_policy(paths: Paths, path: Path) -> Policy:
    """A file's policy with its presets resolved on this host, as a sandbox gets it."""
    return _resolved(paths, load_policy(path))


def _resolved(paths: Paths, policy: Policy) -> Policy:
    if not policy.presets:
        return policy

    return expand(paths, policy)[0]


def remarks_of(paths: Paths, path: Path, policy: Policy) -> list[Remark]:
    """What `policy check` warns of; a Failure for what must be corrected first."""
    remarks = lint(policy, is_shared, known_upstreams(paths))
    for remark in remarks:
        if remark.refused:
            what = f"the policy {path} is wider than it looks"
            raise Failure("P104", what, f"{remark.path}: {remark.what}", remark.hint)
    return remarks


def is_shared(domain: str) -> bool:
    # It reads a long list, which most commands do not need.
    from netpolicy.patterns.publicsuffix import is_shared as is_public_suffix

    return is_public_suffix(domain)


def sandbox_policy(paths: Paths, sandbox: str) -> Policy:
    """The effective policy of a running sandbox."""
    answer = ask(paths.hostd_socket, {"op": "inspect", "sandbox": sandbox})
    path = paths.sandboxes_run / str(answer.get("sandbox")) / "policy.json"
    try:
        return policy_from_mapping(json.loads(read_text(path)))
    except PolicyError as error:
        raise invalid_policy(path, error) from None
    except ValueError:
        raise Failure("P101", "the sandbox's policy is invalid", f"{path} is not JSON") from None


def invalid_policy(path: Path, error: PolicyError) -> Failure:
    why = f"{error.path}: {error.what}" if error.path else error.what
    return Failure(error.code, f"the policy {path} is invalid", why, error.hint)

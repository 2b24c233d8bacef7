"""`hostctl policy render`: a policy as it takes effect, and what is made of it."""

from __future__ import annotations

from argparse import Namespace

from hostctl.defaults import UID_BASE
from hostctl.output import Output
from hostctl.policyfile import named_policy
from hostctl.upstreamtable import known_upstreams
from identity.paths import Paths
from netpolicy.document import policy_digest, policy_to_mapping
from netpolicy.nftables import GIT_UNTRUSTED, Uids
from netpolicy.nftables import render as render_nft
from netpolicy.policy import Policy
from netpolicy.toml_text import policy_to_toml
from netpolicy.upstreams import gitconfig_for

_WORKSPACE = "/workspace"


def main(args: Namespace, out: Output) -> int:
    paths = Paths(args.root)
    policy = named_policy(paths, args.policy)
    digest = policy_digest(policy)
    text = _text(args, paths, policy)
    if out.json:
        fields = {"name": policy.name, "sha256": digest, "policy": policy_to_mapping(policy)}
        out.emit({"schema": "gitmoat.policy-render/1", **fields})
    else:
        out.line(f"# policy {policy.name}, sha256 {digest}\n{text}".rstrip("\n"))
    return 0


def _text(args: Namespace, paths: Paths, policy: Policy) -> str:
    if args.nft:
        # The uids of the first sandbox: each has three of its own.
        return render_nft(Uids(UID_BASE, UID_BASE + 1, UID_BASE + 2), bool(policy.egress))
    if args.git:
        return gitconfig_for(known_upstreams(paths), GIT_UNTRUSTED, _WORKSPACE)
    return policy_to_toml(policy)

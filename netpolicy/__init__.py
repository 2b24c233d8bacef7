"""Trusted with: what a policy means; every allow and deny of git and egress is computed here.
Never holds: a credential, a socket, a file, a clock; it decides and never does.
Hears: text and mappings from root-owned files and signed grants, typed requests from gitmoat.wire.
Speaks: verdicts, refusal texts, git config and nftables text, as values to its callers.
"""

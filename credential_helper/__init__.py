"""Trusted with carrying one request token from the sidecar to the git that asked for it.
Never holds an upstream credential or a session key, and keeps nothing after it exits.
Hears from git (standard input) and from the sidecar.
Speaks to the sidecar over the credential socket, and to git (standard output).
"""

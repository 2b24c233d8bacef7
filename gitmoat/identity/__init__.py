"""Trusted with key files, pinned TLS, grants, peer attestation and control sockets.
Never holds an upstream credential beyond the opaque `Secret` that wraps one.
Hears from every program of ours, each in its own process.
Speaks to nobody: it makes and checks values, sockets and TLS connections for its callers.
"""

"""The central broker: decides every request again and speaks to the upstreams.

Trusted with: upstream credentials, the session registry, the audit of what was allowed.
Never holds: root after its start, a sandbox's files, a host's signing key.
Hears: sidecars and hostd over pinned TLS, uid 0 on the admin socket. Speaks to: upstreams.
"""

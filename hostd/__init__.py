"""The root daemon of a host: makes sandboxes, their namespaces, rules, listeners and sidecars.

Trusted with: root, and the host's signing key. Never holds: an upstream credential.
Hears: hostctl (uid 0 by SO_PEERCRED) and, in four fixed-size messages, its sidecars.
Speaks to: the kernel, bubblewrap, nft, its launcher and zygote, and the broker over pinned TLS.
"""

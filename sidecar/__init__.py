"""The program in one sandbox's network namespace that serves git to it.

Trusted with: its session's private key, in memory. Never holds: an upstream credential, a file, or
the ability to open a connection. Hears: the sandbox (hostile), hostd's control socket, the broker.
Speaks to: the broker only, over connections that hostd dialled and passed in.
"""

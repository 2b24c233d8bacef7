"""Trusted with: nothing; the actions of `hostctl policy`, one module each.
Never holds: a credential; what it reads are policies, and what the broker's files say of upstreams.
Hears: the admin's command line.
Speaks: words about policies, and new policy files, never over an old one.
"""

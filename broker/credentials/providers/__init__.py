"""Where upstream credentials come from, one module per kind.

Trusted with: reading a credential at the moment it is used. Never holds: a copy afterwards.
Hears: the broker's operations. Speaks to: files of the broker's owner, and its vault.
"""

"""Trusted with the record of what was decided, granted and revoked, in order and complete.
Never holds a secret, an Authorization value or raw text of a sandbox.
Hears from the one program that writes the journal: each trust domain has its own.
Speaks to a file, and to nobody else.
"""

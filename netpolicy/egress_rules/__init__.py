"""Trusted with: what an `[[egress]]` table says, also narrowed, compared and explained.
Never holds: a connection; it says which are allowed, and sidecar and broker make them.
Hears: tables of a document, options of one run, refusals from the audit, the tests of a policy.
Speaks: rules, suggestions, remarks and words, through the record in `kind`.
"""

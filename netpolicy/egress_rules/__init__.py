"""Trusted with: what an `[[egress]]` table says, also narrowed, compared and explained.
Never holds: a decision about a request; `netpolicy.egress` makes those of the rules read here.
Hears: tables of a document, options of one run, refusals from the audit, the tests of a policy.
Speaks: rules, suggestions, remarks and words, through the record in `kind`.
"""

"""Trusted with: what a `[[git]]` table says, also narrowed, compared and explained.
Never holds: a decision about a request; `netpolicy.decision` makes those of the rules read here.
Hears: tables of a document, options of one run, and the tests that a policy carries.
Speaks: rules, remarks and words, through the record in `kind`.
"""

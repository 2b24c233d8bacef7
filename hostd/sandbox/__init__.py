"""One sandbox, from its plan over its first processes to its end, and what a new hostd does with
it.
"""

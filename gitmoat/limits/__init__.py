"""Trusted with nothing: it counts. Every rate, cap, quota and brake of every program is made here.
Never holds a secret, a connection or a clock; the time is an argument.
Hears from whoever serves requests: sidecar, broker, hostd. Both hops count with the same code.
Speaks to nobody: a refusal is a value.
"""

"""One request of a session: what its kind says, what it waits for, what is told and recorded of
it.
"""

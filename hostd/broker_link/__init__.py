"""What hostd says to the broker: grants under the host's key, requests, and credential helpers
that it runs for it.
"""

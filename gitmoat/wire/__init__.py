"""Readers and writers of git's wire formats: pure, no sockets, no clock.

Trusted with: turning untrusted bytes into typed requests, or refusing them. Never holds: secrets.
Hears: bytes and typed values of its callers. Speaks to: nobody; it returns values.
"""

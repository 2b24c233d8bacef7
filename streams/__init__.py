"""HTTP/1.1 connections, transfers between two of them, and sequenced-packet sockets, on Twisted.

Trusted with: moving every byte of a transfer, in order, in constant memory, or cutting both ends.
Never holds: a credential, a policy or a decision; whole bodies.
Hears: bytes of both peers. Speaks to: the sinks and callbacks its users give it.
"""

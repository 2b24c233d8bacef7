"""The messages that two programs exchange, as types that both ends share.

Trusted with nothing: a message holds what it was given and never a credential.
It hears mappings and bytes from the other end, all of them suspect until they are read.
It speaks in values that were read whole, or refuses with the path of the key at fault.
"""

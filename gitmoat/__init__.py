"""What the programs share: how messages are read and written, and the messages themselves.

Trusted with nothing: it holds no key and no credential, and decides no policy.
It hears bytes and values that a program hands to it, and `control` connections that were accepted
for it; it opens no file and no socket.
It speaks in typed values, or in an error that names the key at fault.
"""

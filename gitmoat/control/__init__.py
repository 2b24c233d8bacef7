"""Control sockets of hostd and of the broker: lines of JSON, one object each, root to root.

Trusted with the word of who connects, as the kernel has it; it holds no key and no credential.
It hears lines within a bound, of a peer that is permitted; of another one it reads nothing.
It speaks in lines that end with a newline. What they mean is for the two programs to say.
"""

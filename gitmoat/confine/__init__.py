"""Turns a process into one that can do less: namespaces, descriptors, uids, capabilities, seccomp.

Trusted with: the order in which privileges are given up. Holds no key, token or policy.
Hears: hostd's launcher and zygote, the broker and the sidecar, each about itself.
Speaks to: the kernel only.
Every call either does what it says or raises; nothing here is best effort.
"""

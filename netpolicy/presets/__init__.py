"""Trusted with: which hosts a package manager fetches from, read off its own configuration.
Never holds: a file, a process, or a list of well-known hosts: what is not configured is not known.
Hears: the text of root-owned files.
Speaks: places, each with the file that names it, and notes on what was not understood.
"""

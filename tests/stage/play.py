"""A policy for repositories that the command may use as it likes."""

from __future__ import annotations

# Everything below `play/` may be fetched and pushed by the command itself.
PLAY = """\
version = 1
name = "play"
[[git]]
id = "play"
repos = ["demo:play/*"]
fetch = true
push = { branches = ["main", "agent/**"], tags = ["v*"], create = true, update = true }
who = ["helper", "untrusted"]
[limits]
git_requests_per_minute = 10000
"""
LARGE = "play/large"

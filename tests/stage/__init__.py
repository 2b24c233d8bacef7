"""What tests of a running Gitmoat share: a root, a git server, daemons, sandboxes, hostctl.

Nothing here is a test. What stands in for a part of Gitmoat is in tests/fakes.
"""

"""The ways a sandbox is made; each starts a first process, whose namespaces commands join."""

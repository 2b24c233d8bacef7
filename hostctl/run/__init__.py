"""A command in a sandbox that is attached to this terminal."""

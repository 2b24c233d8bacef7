"""The ways a sandbox is made; each gives the same thing: a room that commands can enter."""

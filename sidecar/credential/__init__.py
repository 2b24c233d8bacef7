"""The credential socket: who asks, and the token that is given instead of a credential."""

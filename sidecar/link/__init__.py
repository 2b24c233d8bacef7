"""Connections to the broker: made, kept, and given to one request at a time."""

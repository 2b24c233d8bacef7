"""Upstream credentials: where they come from, where they lie, and the one place that sends them."""

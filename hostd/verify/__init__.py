"""Probes before each activation and for `hostctl verify`, and the report."""

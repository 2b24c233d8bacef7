"""Ratios against git without us, measured in one run on one machine. `make bench`."""

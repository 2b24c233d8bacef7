"""Keeps each sandbox served: starts sidecars, gets them sessions, replaces them."""

"""Rows that are not about one chain beside another: start-up, memory, sessions, other hosts."""

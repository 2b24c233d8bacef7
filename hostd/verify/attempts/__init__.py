"""What probes try, inside a sandbox."""

"""Files into a sandbox and out of it."""

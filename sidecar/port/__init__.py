"""A sidecar's ports, and the connections that the sandbox makes to them."""

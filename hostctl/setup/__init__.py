"""What this host is configured with, and its two daemons."""

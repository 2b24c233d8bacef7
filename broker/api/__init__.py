"""What sessions, hosts and root may ask of the broker, and who may ask it."""

"""Sockets as transports: listening, dialling, TLS, and sequenced packets."""

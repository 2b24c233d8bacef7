"""broker.toml and broker.d, read into frozen values."""

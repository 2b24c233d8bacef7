"""What happens before a sidecar is forked, and the test that it makes of its own confinement."""

"""What hostd tells a sidecar, and what a sidecar reports."""

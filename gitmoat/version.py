"""The version, as text: reading package metadata would take longer than a whole command, and may
be out of reach once a uid is dropped. setup.cfg says the same; a test compares them."""

VERSION = "0.2.0"

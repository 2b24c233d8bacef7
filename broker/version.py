"""The version, as text: package metadata may be out of reach once the uid is dropped."""

VERSION = "0.1.0"

"""The version of hostd, as its operations and reports say it."""

VERSION = "0.1.0"

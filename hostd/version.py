"""The version of hostd, as its operations and reports say it."""

from identity.version import VERSION as VERSION
